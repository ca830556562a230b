"""`torch._foreach_*`: one op over the tensors of a list. Each is made here from the op of that
name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember import dtypes
from ember.core.dispatch import NUMBERS
from ember.core.registry import FUNCTION, NAMESPACES, composite
from ember.core.tensor import Tensor
from ember.errors import check

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
TAKES_ALPHA = ("add", "sub")
BINARY = ("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum")
# what the op of two tensors is when the other is a number
WITH_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}
_torch = NAMESPACES["torch"]


def _listed(name: str, tensors: Any, position: int = 0) -> list[Tensor]:
    """The tensors of a list argument. TypeError for anything else, RuntimeError if it is empty."""
    check(
        isinstance(tensors, (list, tuple)),
        TypeError,
        f"{name}(): argument '{'self' if position == 0 else 'other'}' (position {position + 1}) "
        f"must be tuple of Tensors, not {type(tensors).__name__}",
    )
    for i, tensor in enumerate(tensors):
        check(
            isinstance(tensor, Tensor),
            TypeError,
            f"expected Tensor as element {i} in argument {position}, but got "
            f"{type(tensor).__name__}",
        )
    check(tensors or position, RuntimeError, "Tensor list must have at least one tensor.")
    return list(tensors)


def _as_long(tensors: Sequence[Any], others: Sequence[Any]) -> None:
    check(
        len(tensors) == len(others),
        RuntimeError,
        f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(others)}",
    )


def _numbers_for(tensors: Sequence[Any], numbers: Sequence[Any]) -> None:
    check(
        len(tensors) == len(numbers),
        RuntimeError,
        "Tensor list must have same number of elements as scalar list.",
    )


def _each(name: str, tensors: list[Tensor], other: Any, tensor_too: bool) -> list[Any]:
    """The other operand for each tensor: a number for all, or one number or tensor each."""
    if isinstance(other, NUMBERS):
        return [other] * len(tensors)
    if isinstance(other, Tensor) and tensor_too:
        spec = other._array.spec
        check(
            spec.ndim == 0,
            RuntimeError,
            f"scalar tensor expected to be 0 dim but it has {spec.ndim} dimensions and "
            f"{spec.numel} elements.",
        )
        return [other] * len(tensors)
    if isinstance(other, (list, tuple)) and other and isinstance(other[0], NUMBERS):
        _numbers_for(tensors, other)
        return list(other)
    check(
        isinstance(other, (list, tuple)),
        TypeError,
        f"{name}() received an invalid combination of arguments: the other operand is a number, a "
        f"list of numbers, or a list of tensors, not {type(other).__name__}",
    )
    others = _listed(name, other, 1)
    _as_long(tensors, others)
    return list(others)


def _publish(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = doc
    composite(FUNCTION)(function)


def _unary(name: str) -> None:
    def each(self: Any) -> Any:
        run = _torch[name]
        return tuple(run(t) for t in _listed(f"_foreach_{name}", self))

    def each_(self: Any) -> Any:
        for tensor in _listed(f"_foreach_{name}_", self):
            getattr(tensor, f"{name}_")()
        return self

    _publish(name, each, f"`{name}` of each tensor, as a tuple.")
    _publish(f"{name}_", each_, f"`{name}_` on each tensor of a list, which is returned.")


def _operand(named: dict[str, Any], name: str, *names: str) -> Any:
    given = [named.pop(n) for n in names if n in named]
    check(
        len(given) == 1 and not named,
        TypeError,
        f"{name}() received an invalid combination of arguments: it takes the list and one of "
        f"{', '.join(names)}",
    )
    return given[0]


def _binary(name: str) -> None:
    own = f"_foreach_{name}"
    by_number = WITH_NUMBER.get(name, name)

    def bound(self: Any, other: Any, alpha: Any, written: bool) -> Any:
        tensors = _listed(own, self)
        others = _each(own, tensors, other, name in ("add", "sub", "mul", "div"))
        check(
            alpha == 1 or isinstance(others[0], Tensor),
            TypeError,
            f"{own}() received an invalid combination of arguments: alpha goes with tensors",
        )
        options = {} if alpha == 1 else {"alpha": alpha}
        for tensor, one in zip(tensors, others, strict=True):
            called = by_number if isinstance(one, NUMBERS) else name
            if written:
                yield _write(tensor, called, one, options)
            else:
                yield _torch[called](tensor, one, **options)

    def each(self: Any, *other: Any, **named: Any) -> Any:
        alpha = named.pop("alpha", 1) if name in TAKES_ALPHA else 1
        value = other[0] if len(other) == 1 and not named else None
        if value is None:
            value = _operand(named, own, "other", "scalar", "scalars", "exponent")
        if name == "pow" and isinstance(self, NUMBERS):
            return tuple(_torch["pow"](self, t) for t in _listed(own, value, 1))
        return tuple(bound(self, value, alpha, False))

    def each_(self: Any, *other: Any, **named: Any) -> Any:
        alpha = named.pop("alpha", 1) if name in TAKES_ALPHA else 1
        value = other[0] if len(other) == 1 and not named else None
        if value is None:
            value = _operand(named, own + "_", "other", "scalar", "scalars", "exponent")
        list(bound(self, value, alpha, True))
        return self

    _publish(
        name,
        each,
        f"`{name}` of each tensor and a number, the number or the tensor at its place, as a tuple.",
    )
    _publish(f"{name}_", each_, f"`_foreach_{name}` written into the tensors; returns the list.")


def _write(tensor: Any, name: str, other: Any, options: dict[str, Any]) -> Any:
    method = getattr(tensor, f"{name}_", None)
    if method is not None:
        return method(other, **options)
    return tensor.copy_(_torch[name](tensor, other, **options))


def _ternary(name: str) -> None:
    own = f"_foreach_{name}"

    def bound(self: Any, tensor1: Any, tensor2: Any, value: Any, written: bool) -> Any:
        tensors, first = _listed(own, self), _listed(own, tensor1, 1)
        second = _listed(own, tensor2, 2)
        _as_long(tensors, first), _as_long(tensors, second)
        if isinstance(value, Tensor):
            check(
                value.numel() == len(tensors),
                RuntimeError,
                f"Expected length of scalars to match input of length {len(tensors)} but got "
                f"{value.numel()} instead.",
            )
            value = value.tolist()  # type: ignore[attr-defined]
        if isinstance(value, (list, tuple)):
            _numbers_for(tensors, value)
        else:
            value = [value] * len(tensors)
        for row in zip(tensors, first, second, value, strict=True):
            run: Any = getattr(row[0], f"{name}_") if written else _torch[name]
            yield run(*row[1:3], value=row[3]) if written else run(*row[:3], value=row[3])

    def each(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        return tuple(bound(self, tensor1, tensor2, value if scalars is None else scalars, False))

    def each_(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        list(bound(self, tensor1, tensor2, value if scalars is None else scalars, True))
        return self

    _publish(name, each, f"`{name}` of the tensors at each place of three lists, as a tuple.")
    _publish(f"{name}_", each_, f"`_foreach_{name}` written into the tensors; returns the list.")


for _name in UNARY:
    _unary(_name)
for _name in BINARY:
    _binary(_name)
for _name in ("addcmul", "addcdiv"):
    _ternary(_name)


def _interpolated(self: Any, tensors1: Any, weight: Any, written: bool) -> Any:
    starts = _listed("_foreach_lerp", self)
    ends = _listed("_foreach_lerp", tensors1, 1)
    _as_long(starts, ends)
    weights = _each("_foreach_lerp", starts, weight, False)
    for start, end, by in zip(starts, ends, weights, strict=True):
        run: Any = start.lerp_ if written else start.lerp  # type: ignore[attr-defined]
        yield run(end, by)


@composite(FUNCTION)
def _foreach_lerp(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> Any:
    """`lerp` of the tensors at each place of two lists, as a tuple."""
    return tuple(_interpolated(self, tensors1, weight if weights is None else weights, False))


@composite(FUNCTION)
def _foreach_lerp_(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> Any:
    """`_foreach_lerp` written into the tensors; returns the list."""
    list(_interpolated(self, tensors1, weight if weights is None else weights, True))
    return self


@composite(FUNCTION)
def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The vector norm of each tensor, as a tuple of 0-dim tensors."""
    run = NAMESPACES["linalg"]["vector_norm"]
    return tuple(run(t, ord, dtype=dtype) for t in _listed("_foreach_norm", self))


@composite(FUNCTION)
def _foreach_powsum(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The sum of |x|^ord of each tensor, as a tuple of 0-dim tensors."""
    return tuple(
        t.abs().pow(ord).sum(dtype=dtype)  # type: ignore[attr-defined]
        for t in _listed("_foreach_powsum", self)
    )


@composite(FUNCTION)
def _foreach_max(self: Any) -> Any:
    """The largest element of each tensor, as a tuple of 0-dim tensors."""
    tensors = _listed("_foreach_max", self)
    for tensor in tensors:
        check(
            tensor.numel(),
            RuntimeError,
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is "
            "undefined.",
        )
    return tuple(t.max() for t in tensors)  # type: ignore[attr-defined]


@composite(FUNCTION)
def _foreach_mm(self: Any, mat2: Any) -> Any:
    """The matrix products of the tensors at each place of two lists, as a tuple."""
    first, second = _listed("_foreach_mm", self), _listed("_foreach_mm", mat2, 1)
    _as_long(first, second)
    return tuple(_torch["mm"](a, b) for a, b in zip(first, second, strict=True))


@composite(FUNCTION)
def _foreach_clone(self: Any, *, memory_format: Any = None) -> Any:
    """A copy of each tensor, as a tuple."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(_torch["clone"](t, **options) for t in _listed("_foreach_clone", self))


@composite(FUNCTION)
def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copies each tensor of `src` into the one at its place; returns the list."""
    tensors, sources = _listed("_foreach_copy_", self), _listed("_foreach_copy_", src, 1)
    _as_long(tensors, sources)
    for tensor, source in zip(tensors, sources, strict=True):
        tensor.copy_(source, non_blocking)  # type: ignore[attr-defined]
    return self


@composite(FUNCTION)
def _foreach_zero_(self: Any) -> Any:
    """Sets each tensor to zero; returns the list."""
    for tensor in _listed("_foreach_zero_", self):
        tensor.zero_()  # type: ignore[attr-defined]
    return self


@composite(FUNCTION)
def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape as a tensor of int64 on the CPU."""
    made: Tensor = _torch["tensor"](list(self.shape), dtype=dtypes.int64)
    return made
