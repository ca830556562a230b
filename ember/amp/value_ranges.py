"""Which dtypes the values of each layer fit in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember import dtypes
from ember.amp.step_search import host_values
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.pytree import tree_leaves

__all__ = ["LayerRange", "Ranges", "ranges"]
# The largest number, and the smallest that is not 0, of the dtypes that are asked about.
LIMITS = {
    dtypes.float16: (65504.0, 2.0**-24),
    dtypes.bfloat16: (3.3895313892515355e38, 2.0**-133),
    dtypes.float8_e4m3fn: (448.0, 2.0**-9),
    dtypes.float8_e5m2: (57344.0, 2.0**-16),
}
ROOM, LOST, MUCH_LOST = 4.0, 0.01, 0.1
_BINS = range(-40, 41)  # powers of two that the picture shows


class LayerRange(NamedTuple):
    """The magnitudes of one kind of values of one layer."""

    layer: str
    kind: str  # weight, output or gradient
    largest: float
    smallest: float  # of those that are not 0
    zeros: float  # the fraction of elements that are 0
    bad: int  # how many are inf or NaN
    histogram: tuple[int, ...]  # by power of two, from 2^-40 to 2^40

    def verdict(self, dtype: DType) -> str:
        """ "yes", "tight" (within a factor of 4 of the end, or over 1 % become 0) or "no"."""
        most, least = LIMITS[dtype]
        lost = self.lost(least)
        if self.bad or self.largest > most or lost > MUCH_LOST:
            return "no"
        return "tight" if self.largest * ROOM > most or lost > LOST else "yes"

    def lost(self, least: float) -> float:
        """The fraction of the elements that are not 0 and smaller than `least`."""
        total = sum(self.histogram)
        below = int(np.floor(np.log2(least))) - _BINS[0]
        return sum(self.histogram[: max(below, 0)]) / total if total else 0.0


class Ranges(list[LayerRange]):
    """The ranges of a model's layers, in the order in which they ran."""

    def table(self) -> Any:
        """A rich table: for each layer its magnitudes and what they fit in."""
        from rich.table import Table

        made = Table(title="Which dtypes the values fit in")
        for name in ("layer", "values"):
            made.add_column(name)
        for name in ("smallest", "largest", *(_short(d) for d in LIMITS)):
            made.add_column(name, justify="right")
        for item in self:
            verdicts = [item.verdict(dtype) for dtype in LIMITS]
            ends = (f"{item.smallest:.2g}", f"{item.largest:.3g}")
            made.add_row(item.layer, item.kind, *ends, *verdicts)
        return made

    def print(self, file: Any = None) -> None:
        """Write the table to `file`, by default the standard output."""
        from rich.console import Console

        file = file or sys.stdout
        Console(file=file, width=None if file.isatty() else 110).print(self.table())

    def plot(self, path: str | None = None) -> Any:
        """A picture (matplotlib): how many values of each layer lie at each power of two, and where
        the dtypes end; saved to `path` if one is given. Returns the figure."""
        from matplotlib.figure import Figure

        counts = np.array([item.histogram for item in self], float)
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        figure = Figure(figsize=(9, 1.5 + 0.3 * len(self)), layout="tight")
        axes = figure.subplots()
        shown = axes.imshow(
            shares, aspect="auto", cmap="Blues", extent=(_BINS[0], _BINS[-1] + 1, len(self), 0)
        )
        figure.colorbar(shown, label="share of values")
        axes.set_yticks([i + 0.5 for i in range(len(self))])
        axes.set_yticklabels([f"{item.layer} {item.kind}" for item in self], fontsize=8)
        axes.set_xlabel("power of two")
        for colour, (dtype, ends) in zip(("C1", "C2", "C3", "C4"), LIMITS.items()):
            for end in ends:
                if _BINS[0] <= np.log2(end) <= _BINS[-1]:
                    axes.axvline(np.log2(end), color=colour, lw=1.2)
            axes.plot([], [], color=colour, label=_short(dtype))
        axes.legend(fontsize=7, loc="upper right")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


def ranges(model: Any, sample: Any, loss: Callable[[Any], Tensor] | None = None) -> Ranges:
    """The magnitudes of each layer's weights and outputs for a sample, and which dtypes they fit.

    `sample` is a tensor, a tuple of arguments or a dict of keyword arguments. With `loss`, a
    function of the output, the gradients of the outputs too; the model's gradients are left as
    they were. Only ranges are judged: bfloat16 holds every range, with three digits.

    >>> import ember as torch
    >>> layer = torch.nn.Linear(2, 2)
    >>> found = torch.amp.ranges(layer, torch.full((1, 2), 1e6))
    >>> [(item.kind, item.verdict(torch.float16)) for item in found][-1]
    ('output', 'no')
    """
    layers = [(name or "model", m) for name, m in model.named_modules() if not m._modules]
    found, gradients = Ranges(), Ranges()
    handles = []

    def watch(name: str, module: Any) -> None:
        def after(_: Any, args: Any, output: Any) -> None:
            for parameter_name, parameter in module._parameters.items():
                if parameter is not None:
                    found.append(_range(name, parameter_name, parameter))
            for tensor in tree_leaves(output):
                if not (isinstance(tensor, Tensor) and tensor.dtype.is_floating_point):
                    continue
                found.append(_range(name, "output", tensor))
                if loss is not None and tensor.requires_grad:
                    tensor.register_hook(
                        lambda g: gradients.append(_range(name, "gradient", g)) or None
                    )

        handles.append(module.register_forward_hook(after))

    before = [(p, p.grad) for p in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.grad = None
        for name, module in layers:
            watch(name, module)
        output = _called(model, sample)
        if loss is not None:
            loss(output).backward()
    finally:
        for handle in handles:
            handle.remove()
        for parameter, grad in before:
            parameter.grad = grad
    found += gradients
    return found


def _called(model: Any, sample: Any) -> Any:
    if isinstance(sample, dict):
        return model(**sample)
    return model(*sample) if isinstance(sample, (tuple, list)) else model(sample)


def _range(layer: str, kind: str, tensor: Tensor) -> LayerRange:
    values = np.abs(host_values(tensor._array).astype(np.float64)).reshape(-1)
    finite = values[np.isfinite(values)]
    there = finite[finite > 0]
    powers = np.clip(np.floor(np.log2(there)), _BINS[0], _BINS[-1]).astype(int) - _BINS[0]
    histogram = np.bincount(powers, minlength=len(_BINS))
    return LayerRange(
        layer,
        kind,
        float(there.max(initial=0.0)),
        float(there.min()) if there.size else 0.0,
        float(1 - there.size / values.size) if values.size else 0.0,
        int(values.size - finite.size),
        tuple(int(n) for n in histogram),
    )


def _short(dtype: DType) -> str:
    return str(dtype).removeprefix("torch.")
