"""Vector norms, and distances by them."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.core.registry import (
    FUNCTION,
    INPLACE,
    LINALG,
    METHOD,
    NAMESPACES,
    OUT,
    composite,
    elementwise,
)
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import wrap_dim, wrap_dims
from ember.ops.argument_types import check_tensor
from ember.ops.choices import where_
from ember.ops.reduce import amax, amin, sum_
from ember.scalar import primitives as p
from ember.scalar.expr import Expr
from ember.scalar.primitives import where

API = FUNCTION | METHOD | OUT


@elementwise(accepts=FLOATING, literals={"degree": (2.0, 3.0)})
def root(input: Any, degree: Any) -> Any:
    """input to the power 1 / degree, with slope 0 where the root is 0: what a norm needs there."""
    if not isinstance(degree, Expr) and degree == 2.0:
        return p.sqrt(input)
    return p.pow(input, 1 / degree)


def _root_gradient(g: Any, input: Any, degree: Any, result: Any) -> tuple[Any, ...]:
    if not isinstance(degree, Expr) and degree == 2.0:
        return (where(p.eq(result, 0), 0, g / (2 * result)),)
    return (where(p.eq(result, 0), 0, g * result / (input * degree)),)


root.grad = _root_gradient


@elementwise(accepts=FLOATING)
def power_of_magnitude(input: Any, exponent: Any) -> Any:
    """|input| to the power `exponent`, with slope 0 at 0."""
    return p.pow(p.abs(input), exponent)


power_of_magnitude.grad = lambda g, input, exponent: (
    where(p.eq(input, 0), 0, g * exponent * p.sign(input) * p.pow(p.abs(input), exponent - 1)),
)


def _norm(input: Tensor, order: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The norm over dims of a real tensor."""
    if math.isinf(order):
        return (amax if order > 0 else amin)(input.abs(), dims, keepdim)
    if order == 0:
        nothing = input.nan_to_num(0, 0, 0) * 0  # which the gradient, 0, flows through
        return sum_((input != 0).to(input.dtype) + nothing, dims, keepdim)
    if order == 1:
        return sum_(input.abs(), dims, keepdim)
    if order == 2:
        return root(sum_(input * input, dims, keepdim), 2.0)
    return root(sum_(power_of_magnitude(input, float(order)), dims, keepdim), float(order))


@composite(LINALG | OUT, name="vector_norm")
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim`, all elements by default; ord may be ±inf and 0 (nonzeros).

    >>> import ember as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    check(
        x.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
        f"{x.dtype.title}",
    )
    _check_dtype("linalg.vector_norm", x, dtype)
    check(
        not isinstance(ord, (str, bool)),
        TypeError,
        "vector_norm(): argument 'ord' (position 2) must be Number, not str",
    )
    return _vector_norm("linalg.vector_norm", x, float(ord), dim, keepdim, dtype)


def _check_dtype(name: str, x: Tensor, dtype: DType | None) -> None:
    if dtype is None:
        return
    check(
        dtype.category >= dtypes.FLOAT and dtype.is_complex == x.is_complex(),
        RuntimeError,
        f"{name}: dtype should be {'complex' if x.is_complex() else 'floating point'} for such "
        f"inputs, but got {dtype.title}",
    )
    check(
        dtypes.promote_types(dtype, x.dtype) is dtype,
        RuntimeError,
        f"{name}: the dtype of the input ({x.dtype.title}) should be convertible without narrowing "
        f"to the specified dtype ({dtype.title})",
    )


def _vector_norm(
    name: str, x: Tensor, order: float, dim: Any, keepdim: bool, dtype: DType | None
) -> Tensor:
    wanted = (dtype or x.dtype).to_real()
    dims = wrap_dims(None if dim == () or dim == [] else dim, x.ndim) if x.ndim else ()
    if order < 0 or math.isinf(order):
        for d in dims:
            check(
                x.shape[d] > 0,
                RuntimeError,
                f"{name} cannot compute the {order:g} norm on an empty tensor because the "
                "operation "
                "does not have an identity",
            )
    if x.is_complex():
        x = x.abs()
    work = dtypes.float32 if wanted in dtypes.HALF else wanted
    if not dims:  # one element: its magnitude
        made = x.abs() if order else (x != 0).to(x.dtype)
        return made.to(wanted)
    return _norm(x.to(work), order, dims, keepdim).to(wanted)


@composite(API)
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The norm over `dim`, all elements by default: a vector norm of order p, "fro" or "nuc"."""
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
        f"{input.dtype.title}",
    )
    _check_dtype("norm", input, dtype)
    if isinstance(p, str):
        check(p in ("fro", "nuc"), RuntimeError, f"Only valid p: fro, nuc or numbers, not '{p}'")
        if p == "nuc":
            dims = wrap_dims(dim, input.ndim)
            check(len(dims) == 2, RuntimeError, "nuclear norm takes two dims")
            return NAMESPACES["linalg"]["matrix_norm"](input, "nuc", dims, keepdim, dtype=dtype)
        p = 2
    p = 2 if p is None else p
    return _vector_norm("linalg.vector_norm", input, float(p), dim, keepdim, dtype)


@composite(FUNCTION | METHOD | OUT)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    return norm(input - other, p)


@composite(FUNCTION | METHOD | INPLACE | OUT)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along `dim` scaled down to a p-norm of at most `maxnorm`."""
    check(p > 0, RuntimeError, "renorm: non-positive-norm not supported")
    check(
        input.ndim > 1,
        RuntimeError,
        f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions",
    )
    check(maxnorm >= 0, RuntimeError, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    dim = wrap_dim(dim, input.ndim)
    rest = tuple(d for d in range(input.ndim) if d != dim)
    wide = input.to(dtypes.float32) if input.dtype in dtypes.HALF else input
    norms = _vector_norm("renorm", wide, float(p), rest, True, None)
    factor = where_(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return (wide * factor).to(input.dtype)


@composite(FUNCTION)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The `pow`-norm over all dims but one, which stay with size 1; over all for dim=-1.

    >>> import ember as torch
    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[ 5.],
            [10.]])
    """
    check_tensor("norm_except_dim", "v", 1, v)
    if dim == -1:
        return vector_norm(v, pow)
    kept = wrap_dim(dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept]
    return vector_norm(v, pow, others, keepdim=True) if others else v.abs()
