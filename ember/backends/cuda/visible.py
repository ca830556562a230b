"""How many GPUs a program sees, found without CUDA: a process that has only counted them may fork,
and its children may use them.

The driver shows a GPU as /dev/nvidia0, /dev/nvidia1 and so on; CUDA_VISIBLE_DEVICES picks some of
them, by number or by the beginning of a UUID.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

DEVICES = "/dev"
DETAILS = "/proc/driver/nvidia/gpus"  # a folder for each GPU, with its UUID


def visible_count() -> int | None:
    """How many GPUs CUDA would show; None where only the driver can tell."""
    try:
        names = os.listdir(DEVICES)
    except OSError:
        return None
    count = sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names)
    if not count:
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return count
    entries = [entry.strip() for entry in chosen.split(",")]
    if entries[0].startswith("MIG-"):  # a part of a GPU
        return None
    if entries[0].startswith("GPU-"):
        known = uuids()
        if len(known) < count:
            return None
        return _chosen(entries, lambda entry: _of_uuid(entry, known))
    return _chosen(entries, lambda entry: _of_number(entry, count))


def uuids() -> list[str]:
    """The UUIDs of the machine's GPUs, as far as the driver's files tell."""
    found = []
    try:
        for name in sorted(os.listdir(DETAILS)):
            with open(f"{DETAILS}/{name}/information") as file:
                match = re.search(r"GPU UUID:\s*(GPU-[0-9a-f-]+)", file.read())
            if match:
                found.append(match.group(1))
    except OSError:
        return []
    return found


def _chosen(entries: list[str], meaning: Callable[[str], int | None]) -> int | None:
    """How many entries name a GPU before the first that names none; 0 if two name the same."""
    found: list[int] = []
    for entry in entries:
        which = meaning(entry)
        if which is None:
            break
        if which in found:
            return 0
        found.append(which)
    return len(found)


def _of_number(entry: str, count: int) -> int | None:
    match = re.match(r"\d+", entry)
    number = int(match.group()) if match else count
    return number if number < count else None


def _of_uuid(entry: str, known: list[str]) -> int | None:
    """The one GPU whose UUID begins so."""
    found = [i for i, uuid in enumerate(known) if uuid.startswith(entry)]
    return found[0] if entry.startswith("GPU-") and len(found) == 1 else None
