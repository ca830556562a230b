"""`FlopCounterMode`: how many floating-point operations products and convolutions take, forward and
backward, by module."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import Any

from ember.core.executor import Executor, current_executor, set_executor
from ember.kernel.call import Call
from ember.ops import aten_forms as aten_forms  # the op of that name that counts convolutions
from ember.ops.packets import namespace
from ember.utils.module_tracker import ModuleTracker

_aten = namespace("aten")
SUFFIXES = ["", "K", "M", "B", "T"]


def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """2·m·k·n for matrices (m, k) and (k, n)."""
    return int(2 * a_shape[-2] * a_shape[-1] * b_shape[-1])


def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, **kwargs: Any) -> int:
    """2·m·k·n: the sum is not counted."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Any, b_shape: Any, *args: Any, **kwargs: Any) -> int:
    """2·b·m·k·n for batches of matrices."""
    return int(prod(a_shape[:-2])) * mm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """2 · batch · places of the kernel · elements of the weight."""
    places = (x_shape if transposed else out_shape)[2:]
    return int(2 * x_shape[0] * prod(places) * prod(w_shape))


def _matmul(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    shape = outs[0].shape
    flops = 2 * prod(shape) * specs[0].shape[-1]
    return ("mm" if len(shape) == 2 else "bmm"), flops


def _linear(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    return ("mm" if specs[2] is None else "addmm"), 2 * prod(outs[0].shape) * specs[0].shape[-1]


def _linear_backward(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    products = sum(1 for out in outs[:2] if out.numel)  # by the input, and by the weight
    return "mm", 2 * prod(specs[0].shape) * specs[1].shape[-1] * products


def _forward(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    name = "convolution_backward" if is_backward else "convolution"
    return name, conv_flop_count(specs[0].shape, specs[1].shape, outs[0].shape)


def _transposed(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    name = "convolution_backward" if is_backward else "convolution"
    return name, conv_flop_count(specs[0].shape, specs[1].shape, outs[0].shape, True)


def _by_weight(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    return "convolution_backward", conv_flop_count(specs[0].shape, outs[0].shape, None, True)


def _recurrent(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    """Each step's products of input and state with their weights."""
    rows = prod(specs[0].shape[:-1])
    flops = 2 * rows * (prod(specs[1].shape) + prod(specs[2].shape))
    return ("mm" if specs[3] is None else "addmm"), flops


def _recurrent_backward(specs: tuple[Any, ...], outs: Any, is_backward: bool) -> tuple[str, int]:
    """By both weights, by the states that the layer made itself, and by the input if wanted."""
    rows, first = prod(specs[3].shape[:-1]), outs[-1].shape[0]
    by_input, by_state = 2 * prod(specs[4].shape), 2 * prod(specs[5].shape)
    flops = rows * (by_input + by_state) + (rows - first) * by_state
    return "mm", flops + (rows * by_input if specs[10] else 0)


COUNTED = {
    "recurrent": _recurrent,
    "recurrent_backward": _recurrent_backward,
    "matmul": _matmul,
    "affine": _linear,
    "affine_backward": _linear_backward,
    "convolution": _forward,
    "convolution_input": _transposed,
    "convolution_weight": _by_weight,
}


class _Counter(Executor):
    """Counts the calls that pass the executor's slot, and hands them on."""

    def __init__(self, mode: FlopCounterMode, inner: Executor | None):
        self.mode, self.inner = mode, inner

    def run(self, call: Call, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Count, then run."""
        count = COUNTED.get(call.name)
        if count is not None:
            name, flops = count(call.in_specs, call.out_specs, self.mode.tracker.is_bw)
            self.mode.add(name, flops)
        return super().run(call, runner, operands)


class FlopCounterMode:
    """A block whose matrix products and convolutions are counted, each multiplication and addition
    as one operation; leaving it prints a table, unless `display=False`.

    >>> import ember as torch
    >>> from ember.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ):
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: custom_mapping is not supported, the kernels that are counted "
                "are products and convolutions"
            )
        self.depth, self.display = depth, display
        self.tracker = ModuleTracker()
        self.flop_counts: dict[str, dict[Any, int]] = {}

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.tracker.__enter__()
        self._counter = _Counter(self, current_executor())
        set_executor(self._counter)
        return self

    def __exit__(self, *exc: object) -> None:
        if current_executor() is self._counter:
            set_executor(self._counter.inner)
        self.tracker.__exit__(*exc)
        if self.display:
            print(self.get_table(self.depth))

    def add(self, name: str, flops: int) -> None:
        """Count an op for the modules that the program is inside of."""
        op = _aten.packet(name) if name.endswith("_backward") else getattr(_aten, name)
        for parent in self.tracker.parents:
            self.flop_counts[parent][op] += flops

    def get_total_flops(self) -> int:
        """All operations together."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by module and op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of the modules down to `depth`, with their ops."""
        depth = self.depth if depth is None else depth
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        names = [name for name in sorted(self.flop_counts) if name != "Global"]
        for name in ["Global", *names]:
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            counts, indent = self.flop_counts[name], " " * level
            rows.append((indent + name, *_shown(sum(counts.values()), total)))
            rows += [(f"{indent} - {op}", *_shown(n, total)) for op, n in counts.items()]
        return _aligned(rows)


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in units of a suffix: 1500 in K is "1.500K"."""
    return f"{number / 1000 ** SUFFIXES.index(suffix):.3f}{suffix}"


def get_suffix_str(number: int) -> str:
    """The suffix that leaves a number at least two digits before the point."""
    index = max(0, min(len(SUFFIXES) - 1, (len(str(number)) - 2) // 3))
    return SUFFIXES[index]


def convert_to_percent_str(num: float, denom: float) -> str:
    """num / denom in percent."""
    return f"{num / denom:.2%}" if denom else "0%"


def _shown(flops: int, total: int) -> tuple[str, str]:
    return (
        convert_num_with_suffix(flops, get_suffix_str(total)),
        convert_to_percent_str(flops, total),
    )


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
