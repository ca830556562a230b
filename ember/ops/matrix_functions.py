"""Functions of matrices: exponentials, powers, norms, condition, chains of products; products of
vectors."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import promoted
from ember.core.lifting import whole
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcast_shapes, wrap_dim, wrap_dims
from ember.ops import views
from ember.ops.factorizations import svdvals
from ember.ops.joining import cat
from ember.ops.matmul import matmul
from ember.ops.matrices import check_floating, check_matrix, check_precise, check_square
from ember.ops.norms import vector_norm
from ember.ops.products import best_chain
from ember.ops.solving import inv, inv_ex
from ember.source_lines import warn

PLAIN = FUNCTION | METHOD | OUT

# exponential and powers


@library_op(Library.matrix_exp, name="linalg_matrix_exp")
def exp_op(input: Tensor) -> Spec:
    """exp of square matrices."""
    return input.spec.with_shape(input.shape)


def _exp_gradient(g: Any, input: Any) -> Any:
    """The corner of exp of [[A^H, G], [0, A^H]] (Al-Mohy and Higham, 2009)."""
    turned = input.mH
    size = input.shape[-1]
    above = cat([turned, g], -1)
    below = cat([turned.new_zeros(turned.shape), turned], -1)
    return (exp_op(cat([above, below], -2))[..., :size, size:],)


exp_op.grad = _exp_gradient


@composite(FUNCTION | METHOD | LINALG)
def matrix_exp(input: Tensor) -> Tensor:
    """exp(A) = 1 + A + A²/2 + … of square matrices."""
    check_floating("linalg.matrix_exp", input)
    check_square("linalg.matrix_exp", input)
    return exp_op(input)


@composite(PLAIN | LINALG)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices, by squarings; of the inverse if n < 0.

    >>> import ember as torch
    >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    check_square("linalg.matrix_power", input)
    if n == 0:
        ones = input.new_ones(input.shape[-1]).diag_embed()
        return (input * 0 + ones) if input.requires_grad else ones.expand(input.shape).clone()
    base, left = (inv(input), -n) if n < 0 else (input, n)
    made = None
    while True:
        if left & 1:
            made = base if made is None else made @ base
        left >>= 1
        if not left:
            return made.clone() if made is input else made
        base = base @ base


# norms


@composite(LINALG | OUT)
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of matrices: "fro", "nuc", ±1 (columns), ±inf (rows), ±2 (singular values)."""
    check_floating("linalg.matrix_norm", A)
    check_matrix("linalg.matrix_norm", A)
    check(
        isinstance(dim, (tuple, list)) and len(dim) == 2,
        RuntimeError,
        f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}",
    )
    rows, columns = (wrap_dim(d, A.ndim) for d in dim)
    check(
        rows != columns,
        RuntimeError,
        f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})",
    )
    if isinstance(ord, str):
        check(
            ord in ("fro", "nuc"), RuntimeError, f"linalg.matrix_norm: Order {ord} not supported."
        )
    else:
        check(
            abs(ord) in (1, 2, math.inf),
            RuntimeError,
            f"linalg.matrix_norm: Order {ord} not supported.",
        )
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    A = A if dtype is None else A.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        return _spectral_norm(A, ord, rows, columns, keepdim)
    if abs(ord) == math.inf:
        rows, columns = columns, rows
    sums = vector_norm(A, 1, rows, keepdim)
    place = columns if keepdim or rows > columns else columns - 1
    return _extreme(sums, place, ord, keepdim)


def _extreme(values: Tensor, dim: int, ord: Any, keepdim: bool = False) -> Tensor:
    """The greatest (0 of none), or for a negative order the smallest."""
    if ord < 0:
        return values.amin(dim, keepdim)
    return values.amax(dim, keepdim) if values.shape[dim] else values.sum(dim, keepdim)


def _spectral_norm(A: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    check_precise("linalg.matrix_norm", A)
    values = svdvals(A.movedim((rows, columns), (-2, -1)))
    if ord == "nuc":
        made = values.sum(-1)
    else:
        made = _extreme(values, -1, ord)
    if keepdim:
        for d in sorted((rows, columns)):
            made = made.unsqueeze(d)
    return made


@composite(LINALG | OUT, name="norm")
def linalg_norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """`matrix_norm` over two dims, `vector_norm` over one; the 2-norm of all elements by default.

    >>> import ember as torch
    >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    check_floating("linalg.norm", A)
    dims = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if dims is not None and ord is not None:
        check(
            len(dims) in (1, 2),
            RuntimeError,
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got "
            f"[{', '.join(map(str, dims))}]",
        )
    if dims is None and ord is not None:
        check(
            A.ndim in (1, 2),
            RuntimeError,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.ndim}D.",
        )
    if ord is not None and (len(dims) if dims is not None else A.ndim) == 2:
        return matrix_norm(A, ord, dims or (-2, -1), keepdim, dtype=dtype)
    check(
        not isinstance(ord, str),
        RuntimeError,
        f"linalg.norm: Order {ord} not supported for vectors: it is one of matrices",
    )
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@composite(FUNCTION | OUT)
def nuclear_norm(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The sum of singular values: nuclear_norm(input, keepdim=False) or (input, dim, keepdim)."""
    given = list(args)
    dim = kwargs.get("dim")
    if given and not isinstance(given[0], bool):
        dim = given.pop(0)
    keepdim = given[0] if given else kwargs.get("keepdim", False)
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


@composite(LINALG | OUT)
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition of matrices, |A| · |A⁻¹|, in a norm of `matrix_norm` (p = 2 by default).

    Infinite for singular ones.
    """
    check_precise("linalg.cond", A)
    check_matrix("linalg.cond", A)
    if p is None or p == 2 or p == -2:
        values = svdvals(A)
        if not values.shape[-1]:
            return values.new_zeros(values.shape[:-1])
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    check(
        p in ("fro", "nuc", 1, -1, math.inf, -math.inf),
        RuntimeError,
        f"linalg.cond got an invalid norm type: {p}",
    )
    check_square(f"linalg.cond({p})", A)
    if not A.numel():
        return A.new_zeros(A.shape[:-2], dtype=A.dtype.to_real())
    inverse, info = inv_ex(A)
    if p == "nuc":  # singular values of infinities cannot be found
        inverse = inverse.masked_fill((info > 0).unsqueeze(-1).unsqueeze(-1), 0)
    made = matrix_norm(A, p) * matrix_norm(inverse, p)
    return made.masked_fill(info > 0, math.inf) if whole(info).any().item() else made


# products


@composite(LINALG | OUT)
def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices in the order that takes the fewest multiplications.

    The first may be a row and the last a column, given as vectors.
    """
    count = len(tensors)
    check(count >= 2, RuntimeError, f"multi_dot(): expected at least 2 tensors but got {count}")
    for place, tensor in enumerate(tensors):
        ends = place in (0, count - 1)
        check(
            tensor.ndim == 2 or (ends and tensor.ndim == 1),
            RuntimeError,
            f"multi_dot(): tensor {place} must be {'1D or ' if ends else ''}2D but got "
            f"{tensor.ndim}D",
        )
        check(
            tensor.dtype is tensors[0].dtype,
            RuntimeError,
            f"multi_dot(): all tensors must have be the same dtype but tensor 0 is "
            f"{tensors[0].dtype.title} and tensor {place} {tensor.dtype.title}",
        )
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = list(tensors)
    if row:
        chain[0] = chain[0].unsqueeze(0)
    if column:
        chain[-1] = chain[-1].unsqueeze(-1)
    for place in range(1, count):
        check(
            chain[place - 1].shape[1] == chain[place].shape[0],
            RuntimeError,
            f"multi_dot(): tensors {place - 1} and {place} with shapes "
            f"{list(chain[place - 1].shape)} and {list(chain[place].shape)} cannot be multiplied",
        )
    made = best_chain(chain)
    made = made.squeeze(0) if row else made
    return made.squeeze(-1) if column else made


def _cross(name: str, input: Tensor, other: Tensor, dim: int) -> Tensor:
    dtype = promoted((input, other))
    if dtype is dtypes.bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    check(
        input.ndim == other.ndim,
        RuntimeError,
        f"{name}: inputs must have the same number of dimensions.",
    )
    dim = wrap_dim(dim, input.ndim)
    check(
        input.shape[dim] == 3 and other.shape[dim] == 3,
        RuntimeError,
        f"{name}: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and "
        f"{other.shape[dim]}",
    )
    shape = broadcast_shapes(tuple(input.shape), tuple(other.shape))
    a, b = input.expand(shape), other.expand(shape)
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@composite(LINALG | OUT, name="cross")
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three along `dim`; the others broadcast."""
    return _cross("linalg.cross", input, other, dim)


@composite(PLAIN)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three along `dim`, by default the first dim of that size."""
    if dim is None:
        warn(
            "Using torch.cross without specifying the dim arg is deprecated. Please either pass "
            "the dim explicitly or simply use torch.linalg.cross, whose default is the last dim."
        )
        shape = broadcast_shapes(tuple(input.shape), tuple(other.shape))
        check(3 in shape, RuntimeError, "no dimension of size 3 in input")
        dim = shape.index(3)
    return _cross("linalg.cross", input, other, dim)


@composite(LINALG | OUT)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Σ conj(x)·y along `dim`; the other dims broadcast."""
    check_floating("linalg.vecdot", x)
    check(
        x.dtype is y.dtype,
        RuntimeError,
        f"linalg.vecdot: Expected x and y to have the same dtype, but got {x.dtype.title} and "
        f"{y.dtype.title}",
    )
    check(
        x.ndim > 0 and y.ndim > 0,
        RuntimeError,
        "linalg.vecdot: expected tensors with at least one dimension",
    )
    wrap_dims(dim, max(x.ndim, y.ndim))
    first, second = x.conj().movedim(dim, -1), y.movedim(dim, -1)
    return matmul(first.unsqueeze(-2), second.unsqueeze(-1)).squeeze(-1).squeeze(-1)


@composite(LINALG)
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """`torch.diagonal` of the last two dims, as a view."""
    return views.diagonal(A, offset, dim1, dim2)
