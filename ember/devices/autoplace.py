"""Where a piece of work is faster, the copies counted: measured once for each kind of arguments.

Nothing moves unless the program says so: `autoplace` in the code is what says it, results come back
to where the arguments are, and each choice can be read with its reason.
"""

from __future__ import annotations

import copy
import functools
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ember.backends.base import backend_of, resolve
from ember.core import modes
from ember.core.tensor import Tensor
from ember.cuda import is_available
from ember.device import CPU
from ember.device import device as Device
from ember.devices.amounts import size
from ember.errors import OutOfMemoryError, check
from ember.nn.modules.module import Module
from ember.ops import ones
from ember.pytree import tree_leaves, tree_map
from ember.random import fork_rng
from ember.source_lines import short, user_line

_RUNS, _ENOUGH = 7, 0.1  # at most so many runs of a place, and seconds for them
# What a simulated GPU's clock does not know of: what Python and the driver take for each.
_COPY_OVERHEAD, _LAUNCH_OVERHEAD = 15e-6, 10e-6
_stack: list[Device] = []  # what device="auto" means inside of the functions that run
_known: weakref.WeakSet[Any] = weakref.WeakSet()


class Cost(NamedTuple):
    """What a piece of work costs on a device, in seconds."""

    copy_in: float
    run: float
    copy_out: float
    moved: int  # bytes, both ways

    @property
    def total(self) -> float:
        """All of it."""
        return self.copy_in + self.run + self.copy_out


class Placement(NamedTuple):
    """Where a piece of work is faster, and why; `str` of it is the reason."""

    device: Device
    costs: dict[Device, Cost]
    refused: dict[Device, str]  # why a device could not run it
    work: str
    file: str
    line: int
    simulated: bool

    def __str__(self) -> str:
        where = f" ({short(self.file)}:{self.line})" if self.line else ""
        lines = [f"{self.work}{where} runs on {self.device}: {self.why()}"]
        for place, cost in self.costs.items():
            parts = f"{_time(cost.run)} of work"
            if cost.moved:
                copies = _time(cost.copy_in + cost.copy_out)
                parts += f" and {copies} for copies of {size(cost.moved)}"
            clock = ", by the simulated clock" if self.simulated and place is not CPU else ""
            lines.append(f"  {place}: {_time(cost.total)} ({parts}{clock})")
        lines += [f"  {place}: cannot run it, {text}" for place, text in self.refused.items()]
        return "\n".join(lines)

    def why(self) -> str:
        """The reason in a few words."""
        others = [cost.total for place, cost in self.costs.items() if place is not self.device]
        if not others:
            return "no other device can" if self.refused else "there is no other device"
        times = min(others) / max(self.costs[self.device].total, 1e-9)
        return f"{times:.1f} times as fast there"


def where(work: Any, *args: Any, devices: Any = None) -> Placement:
    """Where a function of tensors, or a module, is faster for such arguments: it is measured on
    each device, with copies of the arguments there and of the results back.

    The arguments themselves are neither moved nor changed, random numbers go on as if nothing had
    been drawn, and modules are copied; but a function with other effects has them several times.
    `devices` are by default the CPU and the current GPU. RuntimeError if no device can run it.

    >>> import ember as torch
    >>> print(torch.devices.where(torch.sin, torch.ones(3), devices=["cpu"]).device)
    cpu
    """
    places = [resolve(Device(d)) for d in devices] if devices else _devices()
    home = _home(args)
    file, line = user_line()
    costs: dict[Device, Cost] = {}
    refused: dict[Device, str] = {}
    with fork_rng(devices=[p.index for p in places if p.type == "cuda"]):
        for place in places:
            try:
                costs[place] = _measured(work, args, place, home)
            except (RuntimeError, OutOfMemoryError) as error:
                refused[place] = str(error).splitlines()[0]
    check(costs, RuntimeError, lambda: f"no device can run it: {'; '.join(refused.values())}")
    best = min(costs, key=lambda place: costs[place].total)
    name = getattr(work, "__name__", type(work).__name__)
    simulated = any(_is_simulated(place) for place in places)
    return Placement(best, costs, refused, f"{name}({_shapes(args)})", file, line, simulated)


class autoplace:
    """A function of tensors, run where it is faster: measured at the first call with arguments of
    some shapes and dtypes, on the CPU and the current GPU, with the copies counted. Of a simulated
    GPU its clock counts, with 10 µs for each launch and 15 µs for each copy.

    Results are on the device of the arguments, gradients pass, and `device="auto"` inside the
    function is where it runs. `report()` says for each kind of arguments what was chosen and why.
    RuntimeError for arguments on several devices; TypeError for a module, whose weights would have
    to go along: ask `where` for these.

    >>> import ember as torch
    >>> @torch.devices.autoplace
    ... def work(x):
    ...     return x.exp() + torch.ones(3, device="auto")
    >>> work(torch.zeros(3))
    tensor([2., 2., 2.])
    >>> len(work.placements)
    1
    """

    def __init__(self, function: Callable[..., Any], devices: Any = None):
        check(
            callable(function) and not isinstance(function, Module),
            TypeError,
            "autoplace: give it a function of tensors. Of a module the weights would have to move: "
            "module.to(torch.devices.where(module, sample).device) moves them once, where you see "
            "it",
        )
        functools.update_wrapper(self, function)
        self.function, self.devices = function, devices
        self.placements: dict[Any, Placement] = {}
        _known.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = _key((args, kwargs))
        found = self.placements.get(key)
        if found is None:
            work = functools.partial(self.function, **kwargs)
            found = where(work, *args, devices=self.devices)
            name = getattr(self.function, "__name__", "a function")
            file, line = _lines_of(self.function, found)
            found = found._replace(work=f"{name}({_shapes(args)})", file=file, line=line)
            self.placements[key] = found
        home = _home(args)
        with _inside(found.device):
            result = self.function(*moved(args, found.device), **moved(kwargs, found.device))
        return moved(result, home)

    def report(self) -> str:
        """What was chosen for each kind of arguments, and why."""
        return "\n".join(map(str, self.placements.values()))


def placements() -> list[Placement]:
    """The choices of all autoplaced functions that are alive, and of `device="auto"`."""
    found = [p for each in list(_known) for p in each.placements.values()]
    return [*found, _automatic()] if _automatic.cache_info().currsize else found


def automatic() -> Device:
    """What `device="auto"` means: inside an autoplaced function where it runs, elsewhere the device
    on which a layer of 512 is faster for a batch of 256, measured at the first use."""
    return _stack[-1] if _stack else _automatic().device


@functools.cache
def _automatic() -> Placement:
    def layer(x: Any, weight: Any) -> Any:
        return (x @ weight).relu()

    found = where(layer, ones(256, 512), ones(512, 512))
    return found._replace(work='device="auto": a layer of 512, batch 256,', file="", line=0)


def moved(value: Any, place: Device) -> Any:
    """The tensors of a value on a device; gradients pass."""
    return tree_map(
        lambda v: v.to(place) if isinstance(v, Tensor) and v.device is not place else v, value
    )


@contextmanager
def _inside(place: Device) -> Iterator[None]:
    _stack.append(place)
    try:
        yield
    finally:
        _stack.pop()


# measuring


def _devices() -> list[Device]:
    return [CPU, *([resolve(Device("cuda"))] if is_available() else [])]


def _is_simulated(place: Device) -> bool:
    return place is not CPU and bool(getattr(backend_of(place.type), "simulated", False))


def _home(args: Any) -> Device:
    found = {t.device for t in tree_leaves(args) if isinstance(t, Tensor)}
    check(
        len(found) <= 1,
        RuntimeError,
        lambda: (
            "autoplace: the arguments are on several devices, "
            f"{' and '.join(sorted(map(str, found)))}; move them together first"
        ),
    )
    return found.pop() if found else CPU


def _measured(work: Any, args: Any, place: Device, home: Device) -> Cost:
    """The least time of a few runs, after one that is not counted."""
    there = copy.deepcopy(work).to(place) if isinstance(work, Module) else work
    best: Cost | None = None
    stop = time.perf_counter() + _ENOUGH
    with modes.no_grad(), _inside(place):
        for number in range(_RUNS + 1):
            cost = _once(there, args, place, home)
            if number and (best is None or cost.total < best.total):
                best = cost
            if best is not None and time.perf_counter() > stop:
                break
    assert best is not None
    return best


def _once(work: Any, args: Any, place: Device, home: Device) -> Cost:
    fresh = tree_map(lambda v: v.detach().clone() if isinstance(v, Tensor) else v, args)
    launches = -_launches(place)
    start = _clock(place)
    given = moved(fresh, place)
    inside = _clock(place)
    result = work(*given)
    after = _clock(place)
    launches += _launches(place)
    moved(result, home)
    end = _clock(place)
    count = _bytes(args) + _bytes(result) if place is not home else 0
    if not _is_simulated(place):
        return Cost(inside - start, after - inside, end - after, count)
    run = max(after - inside, launches * _LAUNCH_OVERHEAD)
    if place is home:
        return Cost(0.0, run, 0.0, count)
    link = backend_of(place.type).model.link
    ways = [_tensors(v) * _COPY_OVERHEAD + _bytes(v) / link for v in (args, result)]
    return Cost(ways[0], run, ways[1], count)


def _launches(place: Device) -> int:
    if not _is_simulated(place):
        return 0
    return int(backend_of(place.type).queue(place.index or 0).launches)


def _clock(place: Device) -> float:
    """Seconds now, once the work that was given is done; of a simulated GPU by its own clock."""
    if place is CPU:
        return time.perf_counter()
    queue = backend_of(place.type).queue(place.index or 0)
    queue.synchronize()
    return float(queue.now) if _is_simulated(place) else time.perf_counter()


# what is said


def _bytes(value: Any) -> int:
    return sum(t._array.spec.nbytes for t in tree_leaves(value) if isinstance(t, Tensor))


def _tensors(value: Any) -> int:
    return sum(isinstance(leaf, Tensor) for leaf in tree_leaves(value))


def _key(value: Any) -> Any:
    """What makes two calls alike: shapes, dtypes and devices of tensors, and all else as it is."""
    kinds = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            kinds.append((tuple(leaf.shape), leaf.dtype, leaf.device))
        else:
            kinds.append((type(leaf), leaf if isinstance(leaf, (bool, str, int)) else None))
    return tuple(kinds)


def _shapes(args: Any) -> str:
    found = [f"{list(t.shape)}" for t in tree_leaves(args) if isinstance(t, Tensor)]
    return ", ".join(found)


def _lines_of(function: Any, found: Placement) -> tuple[str, int]:
    code = getattr(function, "__code__", None)
    return (found.file, found.line) if code is None else (code.co_filename, code.co_firstlineno)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
