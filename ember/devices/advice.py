"""What the entries of a ledger suggest: known patterns of copies, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ember.devices.amounts import size
from ember.source_lines import short

_READS = ("item", "__float__", "__int__", "__bool__", "__index__", "tolist", "__complex__")
_SUMS = ("count", "bytes", "seconds", "blocking", "pinned", "repeated", "returned")
_MANY = 8  # copies of one line that make it a loop
_WORTH_PINNING = 64 << 10  # bytes of a copy from which waiting for it is worth a thought


class Advice(NamedTuple):
    """A pattern that was found, where, what it costs, and what to do."""

    pattern: str
    file: str
    line: int
    module: str
    count: int
    bytes: int
    text: str


def advise(entries: list[Any]) -> list[Advice]:
    """The advice for a ledger's entries, the most bytes first."""
    found = [advice for entry in _by_line(entries) for advice in _of_entry(entry)]
    found += _ping_pong(entries)
    return sorted(found, key=lambda advice: (-advice.bytes, -advice.count, advice.line))


def _by_line(entries: list[Any]) -> list[Any]:
    """The entries with those of one line, which runs in several modules, as one."""
    known: dict[tuple[Any, ...], Any] = {}
    for entry in entries:
        key = (entry.source, entry.target, entry.file, entry.line, entry.call)
        first = known.get(key)
        if first is not None:
            sums = {name: getattr(first, name) + getattr(entry, name) for name in _SUMS}
            entry = first._replace(
                **sums, module=f"{first.module.partition(' and ')[0]} and others"
            )
        known[key] = entry
    return list(known.values())


def _of_entry(entry: Any) -> Iterator[Advice]:
    def advice(pattern: str, count: int, text: str) -> Advice:
        part = entry.bytes * count // max(entry.count, 1)
        return Advice(pattern, entry.file, entry.line, entry.module, count, part, text)

    where = f"{short(entry.file)}:{entry.line}"
    several = f"s of {entry.module}" if " and others" in entry.module else ""
    if entry.returned:
        yield advice(
            "came back unchanged",
            entry.returned,
            f"{where} sends {entry.returned} times to {entry.target} what had come from there and "
            f"was not changed on {entry.source}: keep the tensor that is on {entry.target}",
        )
    elif entry.repeated >= 2:
        yield advice(
            "moved again",
            entry.repeated,
            f"{where} moves the same unchanged tensor{several} to {entry.target} again "
            f"({entry.repeated} of its copies): move it once before the loop, or register it as a "
            "buffer so that it moves with its module",
        )
    if entry.call in _READS and entry.count >= _MANY and entry.bytes <= 64 * entry.count:
        yield advice(
            "read in a loop",
            entry.count,
            f"{where} waits for {entry.source} {entry.count} times to read a number: add up on the "
            "device (total += loss.detach()) and read once after the loop",
        )
    large = entry.bytes >= _WORTH_PINNING * entry.count and entry.count >= 3
    weights = entry.call.startswith("Module.")  # moved once, before the loop
    fresh = not (entry.repeated or entry.returned or weights)
    if entry.direction == "host to device" and large and fresh:
        yield from _overlap(entry, where, advice)


def _overlap(entry: Any, where: str, advice: Any) -> Iterator[Advice]:
    """A batch that the program waits for."""
    if not entry.pinned:
        yield advice(
            "pageable memory",
            entry.count,
            f"{where} copies {size(entry.bytes)} in {entry.count} copies out of pageable memory, "
            "which cannot overlap with computing: pin_memory=True in the DataLoader (or "
            "tensor.pin_memory()) and non_blocking=True in the move",
        )
    elif entry.pinned == entry.count == entry.blocking:
        yield advice(
            "pinned but waited for",
            entry.count,
            f"{where} copies out of page-locked memory and waits all the same: "
            "non_blocking=True lets the copy overlap with computing",
        )


def _ping_pong(entries: list[Any]) -> Iterator[Advice]:
    """Pairs of GPUs between which data goes both ways, again and again."""
    sums: dict[tuple[str, str], list[Any]] = {}
    for entry in entries:
        if entry.direction == "device to device":
            sums.setdefault((entry.source, entry.target), []).append(entry)
    for (a, b), forth in sorted(sums.items()):
        back = sums.get((b, a), [])
        if a > b or not back:
            continue
        counts = [sum(e.count for e in side) for side in (forth, back)]
        if min(counts) < _MANY:
            continue
        most = max((*forth, *back), key=lambda e: e.bytes)
        total = sum(e.bytes for e in (*forth, *back))
        yield Advice(
            "ping-pong",
            most.file,
            most.line,
            most.module,
            sum(counts),
            total,
            f"{a} and {b} exchange {size(total)} in {sum(counts)} copies, both ways; most at "
            f"{short(most.file)}:{most.line}: put layers that talk to one another on one device, "
            "so that a step crosses once forward and once backward",
        )
