"""Random tensors: the factories, and samples whose parameters are tensors."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.core import modes
from ember.core.dispatch import attach, find_device, needs_grad, node_type
from ember.core.factory import finish, new_empty, shape_of
from ember.core.history import check_write, written
from ember.core.lifting import whole
from ember.core.outputs import check_out, fit
from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import broadcast_shapes
from ember.ops.likes import empty_like
from ember.ops.random_fill import (
    ZeroGradient,
    check_dtype,
    check_normal,
    check_probabilities,
    check_probability,
    check_uniform,
    draw,
    integer,
    whole_range,
)

# factories


def _shape(name: str, sizes: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    """The shape of a factory's arguments; TypeError for anything else among them."""
    if not named and sizes and {int}.issuperset(map(type, sizes)):
        return sizes
    named.pop("layout", None)
    if "size" in named:
        sizes = (*sizes, named.pop("size"))
    unknown = ", ".join(named)
    check(not unknown, TypeError, f"{name}() got unexpected keyword argument(s): {unknown}")
    check(
        sizes,
        TypeError,
        f"{name}() received an invalid combination of arguments - got (), but expected a size: "
        f"{name}(2, 3) or "
        f"{name}(size=(2, 3))",
    )
    grouped = len(sizes) == 1 and isinstance(sizes[0], (tuple, list))
    for n in sizes[0] if grouped else sizes:
        check(
            isinstance(n, Tensor) or hasattr(n, "__index__"),
            TypeError,
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(n).__name__}",
        )
    return shape_of(sizes)


def _target(
    name: str, shape: tuple[int, ...], out: Any, dtype: DType, options: dict[str, Any]
) -> Tensor:
    """The tensor to draw into: `out`, given the shape, or a new one."""
    if options.get("requires_grad"):
        differentiable = dtype in dtypes.INEXACT
        text = "Only Tensors of floating point and complex dtype can require gradients"
        check(differentiable, RuntimeError, text)
    if out is None:
        return finish(
            new_empty(shape, dtype, options.get("device")), False, options.get("pin_memory", False)
        )
    check_write(out)
    spec = out._array.spec
    fit(out, spec.with_shape(shape))
    written(out)
    return out


def _dtype(name: str, out: Any, dtype: DType | None, usual: DType) -> DType:
    """The dtype of the numbers: that of `out`, which an explicit one must agree with."""
    if out is None:
        return dtype or usual
    check_out(name, out, ())
    own: DType = out.dtype
    check(
        dtype is None or dtype is own,
        RuntimeError,
        f"dtype {'' if dtype is None else dtype.title} does not match dtype of out parameter "
        f"({own.title})",
    )
    return own


def _made(target: Tensor, options: dict[str, Any]) -> Tensor:
    return target.requires_grad_() if options.get("requires_grad") else target


def _uniform(
    name: str, shape: tuple[int, ...], generator: Any, out: Any, dtype: DType | None, **options: Any
) -> Tensor:
    kind = _dtype(name, out, dtype, modes.get_default_dtype())
    check_uniform(kind, 0.0, 1.0)
    target = _target(name, shape, out, kind, options)
    draw(target, generator, "uniform", 0.0, 1.0)
    return _made(target, options)


def _normal(
    name: str,
    shape: tuple[int, ...],
    generator: Any,
    out: Any,
    dtype: DType | None,
    mean: float = 0.0,
    std: float = 1.0,
    **options: Any,
) -> Tensor:
    kind = _dtype(name, out, dtype, modes.get_default_dtype())
    check_normal(kind, std)
    target = _target(name, shape, out, kind, options)
    draw(target, generator, "normal", mean, std / math.sqrt(2) if kind.is_complex else std)
    return _made(target, options)


@composite(FUNCTION)
def rand(
    *size: Any,
    generator: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Uniform numbers in [0, 1) of a shape, of the default dtype unless another is given.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(2)
    tensor([0.4963, 0.7682])
    """
    options = {"device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
    return _uniform("rand", _shape("rand", size, named), generator, out, dtype, **options)


@composite(FUNCTION)
def randn(
    *size: Any,
    generator: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Standard normal numbers of a shape, of the default dtype unless another is given.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn(2)
    tensor([ 1.5410, -0.2934])
    """
    options = {"device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
    return _normal("randn", _shape("randn", size, named), generator, out, dtype, **options)


def _integers(
    name: str,
    shape: tuple[int, ...],
    low: int,
    high: int,
    generator: Any,
    out: Any,
    dtype: DType,
    **options: Any,
) -> Tensor:
    start, span = whole_range(dtype, low, high)
    target = _target(name, shape, out, dtype, options)
    draw(target, generator, "integers", start, span)
    return _made(target, options)


def _range_and_more(
    name: str, given: tuple[Any, ...], named: dict[str, Any], last: tuple[str, ...]
) -> tuple[int, int, list[Any]]:
    """low (0 if absent), high, and what the names in `last` stand for."""
    full = ("low", "high", *last)
    if not named and len(given) == len(full):
        return integer(name, "low", given[0]), integer(name, "high", given[1]), list(given[2:])
    present = len(given) + sum(n in named for n in full)
    names = full if present == len(full) else full[1:]
    values = {**dict(zip(names, given)), **{n: named.pop(n) for n in full if n in named}}
    right = len(given) <= len(names) and all(n in values for n in names)
    check(
        right and not named,
        TypeError,
        f"{name}() received an invalid combination of arguments: it takes ({', '.join(full[1:])}) "
        "or "
        f"({', '.join(full)}), not {given} and {named}",
    )
    low, high = integer(name, "low", values.get("low", 0)), integer(name, "high", values["high"])
    return low, high, [values[n] for n in last]


@composite(FUNCTION)
def randint(
    *given: Any,
    generator: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Whole numbers from low (0) to before high: `randint(high, size)`, `randint(low, high, size)`.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (3,))
    tensor([4, 9, 3])
    """
    named.pop("layout", None)
    low, high, (size,) = _range_and_more("randint", given, named, ("size",))
    check(
        isinstance(size, (tuple, list)),
        TypeError,
        f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}",
    )
    kind = _dtype("randint", out, dtype, dtypes.int64)
    options = {"device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
    return _integers("randint", shape_of((size,)), low, high, generator, out, kind, **options)


@composite(FUNCTION)
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """The numbers 0 ... n − 1 in random order, int64 by default.

    RuntimeError for a negative `n`, or one whose numbers the dtype cannot hold.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """
    _shape("randperm", (1,), named)
    number = n.item() if isinstance(n, Tensor) else n
    whole = hasattr(number, "__index__") and not isinstance(number, bool)
    check(
        whole,
        TypeError,
        f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}",
    )
    count = int(number)
    kind = _dtype("randperm", out, dtype, dtypes.int64)
    check(
        count >= 0,
        RuntimeError,
        f"Trying to create tensor with negative dimension {count}: [{count}]",
    )
    check_dtype("randperm", kind, dtypes.REAL)
    if kind is dtypes.float16:
        check(count <= 2049, RuntimeError, "n cannot be greater than 2049 for Half type.")
    elif kind in (dtypes.float32, dtypes.float64):
        digits = 24 if kind is dtypes.float32 else 53
        fits = count <= (1 << digits) + 1
        check(fits, RuntimeError, f"n cannot be greater than 2^{digits}+1 for {kind.title} type.")
    elif kind is not dtypes.bfloat16:
        fits = count - 1 <= dtypes.iinfo(kind).max
        check(
            fits, RuntimeError, f"value cannot be converted to type {kind.name}_t without overflow"
        )
    options = {"device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
    target = _target("randperm", (count,), out, kind, options)
    draw(target, generator, "permute")
    return _made(target, options)


# like another tensor


def _like(input: Any, name: str, named: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    kind = type(input).__name__
    check(
        isinstance(input, Tensor),
        TypeError,
        f"{name}(): argument 'input' (position 1) must be Tensor, not {kind}",
    )
    known = {"dtype", "layout", "device", "pin_memory", "requires_grad", "memory_format"}
    unknown = ", ".join(k for k in named if k not in known)
    check(not unknown, TypeError, f"{name}() got unexpected keyword argument(s): {unknown}")
    options = {"requires_grad": named.pop("requires_grad", False)}
    return empty_like(input, **named), options


@composite(FUNCTION)
def rand_like(input: Tensor, *, generator: Any = None, **named: Any) -> Tensor:
    """Uniform numbers in [0, 1) with the shape, dtype, device and dim order of another tensor.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand_like(torch.ones(2))
    tensor([0.4963, 0.7682])
    """
    target, options = _like(input, "rand_like", named)
    check_uniform(target.dtype, 0.0, 1.0)
    draw(target, generator, "uniform", 0.0, 1.0)
    return _made(target, options)


@composite(FUNCTION)
def randn_like(input: Tensor, *, generator: Any = None, **named: Any) -> Tensor:
    """Standard normal numbers with the shape, dtype, device and dim order of another tensor.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn_like(torch.ones(2))
    tensor([ 1.5410, -0.2934])
    """
    target, options = _like(input, "randn_like", named)
    check_normal(target.dtype, 1.0)
    draw(target, generator, "normal", 0.0, 1 / math.sqrt(2) if target.is_complex() else 1.0)
    return _made(target, options)


@composite(FUNCTION)
def randint_like(input: Tensor, *given: Any, generator: Any = None, **named: Any) -> Tensor:
    """Whole numbers with the shape, dtype, device and dim order of another tensor.

    `randint_like(input, high)`, `randint_like(input, low, high)`.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randint_like(torch.ones(3), 10)
    tensor([4., 9., 3.])
    """
    bounds = {n: named.pop(n) for n in ("low", "high") if n in named}
    low, high, _ = _range_and_more("randint_like", given, bounds, ())
    target, options = _like(input, "randint_like", named)
    start, span = whole_range(target.dtype, low, high)
    draw(target, generator, "integers", start, span)
    return _made(target, options)


# with tensors as parameters


def sampled(name: str, out: Tensor, inputs: list[Tensor], node: Any = ZeroGradient) -> Tensor:
    """A drawn tensor as the result of an op on its parameters."""
    if modes.state.grad and any(needs_grad(t) for t in inputs):
        attach(node_type(node, name)(inputs, out), [out])
    return out


def result(
    name: str, out: Any, shape: tuple[int, ...], like: Tensor, dtype: DType | None = None
) -> Tensor:
    """Where a sample goes: `out`, given the shape, or a new contiguous tensor."""
    if out is not None:
        check_out(name, out, (like,))
    return _target(name, shape, out, dtype or like.dtype, {"device": like.device})


@composite(FUNCTION)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    **named: Any,
) -> Tensor:
    """Normal numbers: `normal(mean, std)` with a tensor among them, or `normal(mean, std, size)`.

    RuntimeError for a negative `std`; gradients for `mean` and `std` are zeros.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([0.0, 100.0]), 1.0)
    tensor([ 1.5410, 99.7066])
    """
    tensors = {n: t for n, t in (("mean", mean), ("std", std)) if isinstance(t, Tensor)}
    if not tensors:
        check(
            size is not None,
            TypeError,
            f"normal() received an invalid combination of arguments - got ({type(mean).__name__}, "
            f"{type(std).__name__}): with two numbers it needs a size, normal(mean, std, size=(2, "
            "3))",
        )
        shape = shape_of((size,))
        return _normal("normal", shape, generator, out, dtype, float(mean), float(std), **named)
    check(size is None, TypeError, "normal() takes a size only where mean and std are numbers")
    find_device("normal", list(tensors.items()), zero_dim_moves=False)
    like = mean if isinstance(mean, Tensor) else std
    if isinstance(std, Tensor):
        check(
            not std.is_complex(),
            RuntimeError,
            "normal expects standard deviation to be non-complex",
        )
        if not std.is_meta:
            right = bool(whole(std >= 0).all().item())
            check(right, RuntimeError, "normal expects all elements of std >= 0.0")
    check_normal(like.dtype if out is None else out.dtype, 1.0 if isinstance(std, Tensor) else std)
    target = result("normal", out, broadcast_shapes(*(t.shape for t in tensors.values())), like)
    scale = 1.0 if isinstance(std, Tensor) else float(std)
    draw(target, generator, "normal", 0.0, scale / math.sqrt(2) if target.is_complex() else scale)
    with modes.no_grad():
        if isinstance(std, Tensor):
            target.mul_(std)
        target.add_(mean)
    return target if out is not None else sampled("normal", target, list(tensors.values()))


@composite(FUNCTION | METHOD)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None
) -> Tensor:
    """1 with the probability that each element of `input` gives (or with `p` for all), else 0.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.bernoulli(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0., 0., 1.])
    """
    if p is None:
        check_probabilities(input if out is None else out, input)
    else:
        check_probability(p)
    target = result("bernoulli", out, input.shape, input)
    if p is None:
        draw(target, generator, "bernoulli_each", input.detach())
    else:
        draw(target, generator, "bernoulli", float(p))
    return target if out is not None else sampled("bernoulli", target, [input])
