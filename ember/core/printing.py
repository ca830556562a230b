"""How a tensor prints: PyTorch's layout, made from a NumPy array and a few facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ember.dtypes import bool_, dtype, int64
from ember.errors import check

PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
# Numbers that differ by more than this factor or leave this range are written with exponents.
WIDEST_RATIO, LARGEST, SMALLEST = 1000.0, 1.0e8, 1.0e-4

_options: dict[str, Any] = {**PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print; what is None stays, but `sci_mode`, which None makes automatic.

    `precision` counts digits after the point, a tensor with more than `threshold` elements shows
    `edgeitems` of them at each end of each dim, lines break at `linewidth`; `profile` is "default",
    "short" or "full", ValueError otherwise.

    >>> import ember as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.23456])
    tensor([1.23])
    >>> torch.set_printoptions(profile="default")
    """
    if profile is not None:
        check(
            profile in PROFILES,
            ValueError,
            f"set_printoptions: profile is one of {', '.join(PROFILES)}, not {profile!r}",
        )
        _options.update(PROFILES[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options.update((name, value) for name, value in given.items() if value is not None)
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """A copy of the options in force, as keyword arguments of `set_printoptions`."""
    return dict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` for the length of a block; afterwards the options are as they were."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        _options.update(before)


def format_tensor(
    values: np.ndarray[Any, Any] | None,
    shape: Sequence[int],
    dtype: dtype,
    device: str | None,
    requires_grad: bool,
    grad_fn_name: str | None,
    default_dtype: dtype,
    class_name: str = "tensor",
) -> str:
    """The text of a tensor; `values` is None where there are none to show (meta tensors).

    `device` is named in the text unless it is None, where it goes without saying. `grad_fn_name` is
    the class name of the tensor's node, if any.
    """
    prefix = class_name + "("
    size, typed = f"size={tuple(shape)}", f"dtype={dtype}"
    notes = [f"device='{device}'"] if device is not None else []
    # The dtypes that the digits tell by themselves.
    shown = {default_dtype, default_dtype.to_complex(), int64, bool_}
    if values is None:
        body = "..."
        notes += [size] + ([typed] if dtype is not default_dtype else [])
    elif values.size == 0:
        body = "[]"
        notes += [size] if len(shape) != 1 else []
        notes += [typed] if dtype is not default_dtype else []
    else:
        # Without edge items there may be nothing to tell the shape by.
        notes += [size] if not _options["edgeitems"] else []
        notes += [typed] if dtype not in shown else []
        body = _format_values(values, len(prefix))
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    return _append_notes(prefix + body, notes, len(prefix)) + ")"


def format_sparse(
    parts: Sequence[tuple[str, np.ndarray[Any, Any]]],
    shape: Sequence[int],
    dtype: dtype,
    device: str | None,
    layout: str,
    gradient: str | None,
    default_dtype: dtype,
    class_name: str = "tensor",
) -> str:
    """The text of a sparse tensor of named parts, of which the values are the last.

    `gradient` is the last note, on the gradient, if any.
    """
    indent, texts = len(class_name) + 1, []
    for name, values in parts:
        start = f"{name}=tensor("
        body = _format_values(values, indent + len(start)) if values.size else "[]"
        size = "" if values.size else f", size={values.shape}"
        texts.append(f"{start}{body}{size})")
    notes = [f"size={tuple(shape)}", f"nnz={parts[-1][1].shape[0]}"]
    notes[:0] = [f"device='{device}'"] if device is not None else []
    shown = {default_dtype, default_dtype.to_complex(), int64, bool_}
    notes += [f"dtype={dtype}"] if dtype not in shown else []
    notes += [f"layout={layout}"] + ([gradient] if gradient else [])
    text = class_name + "(" + (",\n" + " " * indent).join(texts)
    return _append_notes(text, notes, indent, layout == "torch.sparse_coo") + ")"


def _append_notes(text: str, notes: list[str], indent: int, on_new_line: bool = False) -> str:
    """`text` with each note behind a comma, on a new line where the last one has no room (the first
    note, if asked for)."""
    column = len(text) - text.rfind("\n") + 1
    if on_new_line:
        column = _options["linewidth"]
    for note in notes:
        if column + len(note) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + note
            column = indent + len(note)
        else:
            text += ", " + note
            column += len(note) + 2
    return text


def _format_values(values: np.ndarray[Any, Any], indent: int) -> str:
    edge: int = _options["edgeitems"]
    cut = [False] * values.ndim
    if values.ndim and values.size > _options["threshold"]:
        if not edge:
            return "[...]"
        cut = [length > 2 * edge for length in values.shape]
        for axis in range(values.ndim):
            if cut[axis]:
                ends = [*range(edge), *range(-edge, 0)]
                values = values[(slice(None),) * axis + (ends,)]  # take() would copy all of it
    if values.dtype.name == "complex32":  # what is of ml_dtypes is exact in a wider dtype
        values = values.astype(np.complex64)
    elif values.dtype.kind not in "biuc":
        values = values.astype(np.float64)
    return _nested(values.tolist(), _style_of(values), indent, cut)


def _nested(items: Any, style: _Style, indent: int, cut: list[bool]) -> str:
    """Nested lists of numbers as text; `cut` says for each dim whether dots stand in its middle."""
    if not cut:
        return style.write(items)
    middle = len(items) // 2
    if len(cut) > 1:
        rows = [_nested(row, style, indent + 1, cut[1:]) for row in items]
        rows[middle:middle] = ["..."] if cut[0] else []
        return "[" + ("," + "\n" * (len(cut) - 1) + " " * (indent + 1)).join(rows) + "]"
    words = [style.write(item) for item in items]
    words[middle:middle] = [" ..."] if cut[0] else []
    room = max(1, (_options["linewidth"] - indent) // (style.width + 2))
    lines = [", ".join(words[start : start + room]) for start in range(0, len(words), room)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


class _Style:
    """How to write each number so that columns line up; this one is for integers and bools."""

    def __init__(self, values: np.ndarray[Any, Any]):
        self.width = max(len(str(value)) for value in values.ravel().tolist())

    def write(self, value: Any) -> str:
        """`value` as text, padded on its left."""
        return str(value).rjust(self.width)


class _RealStyle(_Style):
    """Fixed digits, exponents, or whole numbers with a point: what the values need."""

    def __init__(self, values: np.ndarray[Any, Any]):
        telling = values[np.isfinite(values) & (values != 0)]
        self.width, self.pattern, self.point = 1, "{:.0f}", "."
        if not telling.size:  # zeros, infinities and NaN say nothing about digits
            return
        sizes = np.abs(telling)
        least, most = float(sizes.min()), float(sizes.max())
        whole = bool((sizes == np.ceil(sizes)).all())
        exponents = most / least > WIDEST_RATIO or most > LARGEST
        exponents = exponents or (not whole and least < SMALLEST)
        if _options["sci_mode"] is not None:
            exponents = _options["sci_mode"]
        if exponents or not whole:
            notation = "e" if exponents else "f"
            self.pattern, self.point = f"{{:.{_options['precision']}{notation}}}", ""
        self.width = max(len(self.write(value)) for value in telling.tolist())

    def write(self, value: Any) -> str:
        text = self.pattern.format(value)
        return (text + self.point if math.isfinite(value) else text).rjust(self.width)


class _ComplexStyle(_Style):
    """The real and the imaginary parts, each in a style of its own."""

    def __init__(self, values: np.ndarray[Any, Any]):
        self.real, self.imag = _RealStyle(values.real), _RealStyle(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def write(self, value: Any) -> str:
        imaginary = self.imag.write(value.imag).lstrip()
        sign = "" if imaginary.startswith("-") else "+"
        return f"{self.real.write(value.real)}{sign}{imaginary}j"


def _style_of(values: np.ndarray[Any, Any]) -> _Style:
    kind = {"f": _RealStyle, "c": _ComplexStyle}.get(values.dtype.kind, _Style)
    return kind(values)
