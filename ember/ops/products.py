"""What is made of matrix products: sums of them, outer and Kronecker products, chains."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import product as size_of
from ember.layout import wrap_dim
from ember.ops.linear import rounds_late, widened
from ember.ops.matmul import bmm, dot, mm, mv
from ember.source_lines import warn

API = FUNCTION | METHOD | OUT


@composite(API | INPLACE)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · mat1 @ mat2."""
    if _rounds_late(input, mat1, mat2):
        wide = addmm(*widened(input, mat1, mat2), beta=beta, alpha=alpha)
        return wide.to(mat1.dtype)
    return _accumulated("addmm", input, mm(mat1, mat2), beta, alpha)


def _rounds_late(input: Tensor, first: Tensor, second: Tensor) -> bool:
    """Whether to compute in float32 and round once."""
    return rounds_late(first) and first.dtype is second.dtype and input.dtype is first.dtype


def _accumulated(name: str, input: Tensor, made: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta · input + alpha · made, in the shape of the product."""
    if made.dtype.category < dtypes.FLOAT:
        for word, factor in (("beta", beta), ("alpha", alpha)):
            check(
                not isinstance(factor, float) or name not in ("addmm", "addr"),
                RuntimeError,
                f"For integral input tensors, argument {word} must not be a floating point number.",
            )
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        made = made * alpha
    fits = input.ndim <= made.ndim and all(
        n in (1, m) for n, m in zip(input.shape[::-1], made.shape[::-1], strict=False)
    )
    check(
        fits,
        RuntimeError,
        f"The expanded size of the tensor must match the existing size: {name} got input "
        f"{list(input.shape)} for a product of {list(made.shape)}",
    )
    if beta == 0:
        return made
    return made + (input if beta == 1 else input * beta)


@composite(API | INPLACE)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · mat @ vec."""
    check(
        mat.ndim == 2 and vec.ndim == 1,
        RuntimeError,
        f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}",
    )
    if _rounds_late(input, mat, vec):
        wide = addmv(*widened(input, mat, vec), beta=beta, alpha=alpha)
        return wide.to(input.dtype)
    return _accumulated("addmv", input, mv(mat, vec), beta, alpha)


@composite(API | INPLACE)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · the outer product of two vectors."""
    for name, vec in (("vec1", vec1), ("vec2", vec2)):
        check(
            vec.ndim == 1,
            RuntimeError,
            f"addr: Expected 1-D argument {name}, but got {vec.ndim}-D",
        )
    made = vec1.unsqueeze(1) * vec2
    if made.dtype is dtypes.bool_ and input.dtype is dtypes.bool_:
        made = made & bool(alpha) if not alpha else made
        return made if not beta else made | input
    return _accumulated("addr", input, made, beta, alpha)


@composite(API | INPLACE)
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta · input + alpha · the products of two batches of matrices."""
    if _rounds_late(input, batch1, batch2):
        wide = baddbmm(*widened(input, batch1, batch2), beta=beta, alpha=alpha)
        return wide.to(input.dtype)
    return _accumulated("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@composite(API | INPLACE)
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta · input + alpha · the sum of the products of two batches of matrices."""
    if _rounds_late(input, batch1, batch2):
        wide = addbmm(*widened(input, batch1, batch2), beta=beta, alpha=alpha)
        return wide.to(input.dtype)
    return _accumulated("addbmm", input, bmm(batch1, batch2).sum(0), beta, alpha)


@composite(FUNCTION | METHOD | OUT, names=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The products of each element of one vector with each of another."""
    check(
        input.ndim == 1,
        RuntimeError,
        f"outer: Expected 1-D argument self, but got {input.ndim}-D",
    )
    check(vec2.ndim == 1, RuntimeError, f"outer: Expected 1-D argument vec2, but got {vec2.ndim}-D")
    return input.unsqueeze(1) * vec2


@composite(API)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products of two vectors, the first conjugated."""
    return dot(input.conj(), other)


@composite(API)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sums of products over the last dims of both."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    check(
        input.shape[-1] == other.shape[-1],
        RuntimeError,
        "inner() the last dimension must match on both input tensors but got shapes "
        f"{list(input.shape)} and {list(other.shape)}",
    )
    return tensordot(input, other, dims=([-1], [-1]))


@composite(FUNCTION | OUT)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sums of products over dims of a against dims of b: a number of them, or two lists."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        check(dims >= 0, RuntimeError, f"tensordot expects dims >= 0, but got dims={dims}")
        check(
            dims <= min(a.ndim, b.ndim),
            RuntimeError,
            f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}",
        )
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    left, right = (
        list(d) if isinstance(d, (tuple, list, range)) else [d]
        for d in (dims if len(dims) > 1 else (dims[0], dims[0]))
    )
    check(
        len(left) == len(right),
        RuntimeError,
        "both dimension lists should have same length",
    )
    check(a.dtype is b.dtype, RuntimeError, "both inputs should have same dtype")
    left = [wrap_dim(d, a.ndim) for d in left]
    right = [wrap_dim(d, b.ndim) for d in right]
    for i, j in zip(left, right, strict=True):
        check(
            a.shape[i] == b.shape[j] or 1 in (a.shape[i], b.shape[j]),
            RuntimeError,
            f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
            f"second has size {b.shape[j]} in dim {j}",
        )
        if a.shape[i] != b.shape[j]:  # a dim of size 1 stands for all its partner's elements
            a, b = (a.sum(i, keepdim=True), b.sum(j, keepdim=True))
    return _contracted(a, b, left, right)


def _contracted(a: Tensor, b: Tensor, left: list[int], right: list[int]) -> Tensor:
    rows = [d for d in range(a.ndim) if d not in left]
    columns = [d for d in range(b.ndim) if d not in right]
    inside = size_of(a.shape[d] for d in left)
    shape = [*(a.shape[d] for d in rows), *(b.shape[d] for d in columns)]
    first = a.permute(*rows, *left).reshape(size_of(a.shape[d] for d in rows), inside)
    second = b.permute(*right, *columns).reshape(inside, size_of(b.shape[d] for d in columns))
    return mm(first, second).reshape(shape)


@composite(FUNCTION | METHOD | OUT)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of one times the whole of the other."""
    ndim = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (ndim - input.ndim) + tuple(input.shape))
    b = other.reshape((1,) * (ndim - other.ndim) + tuple(other.shape))
    shape = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    a = a.reshape([n for size in a.shape for n in (size, 1)])
    b = b.reshape([n for size in b.shape for n in (1, size)])
    return (a * b).reshape(shape)


@composite(FUNCTION)
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications.
    Deprecated."""
    warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than "
        "multiple parameters."
    )
    found = (
        list(matrices[0])
        if len(matrices) == 1 and not isinstance(matrices[0], Tensor)
        else list(matrices)
    )
    check(len(found) > 0, RuntimeError, "chain_matmul(): Expected one or more matrices")
    for m in found:
        check(m.ndim == 2, RuntimeError, f"Tensor dimension is {m.ndim}, expected 2 instead.")
    made = best_chain(found)
    return made if out is None else out.copy_(made)


def best_chain(matrices: list[Tensor]) -> Tensor:
    """The chain's product by the classic dynamic programme over where to cut. Godbole 1973."""
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    count = len(matrices)
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def build(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else mm(build(i, cut[i][j]), build(cut[i][j] + 1, j))

    return build(0, count - 1)
