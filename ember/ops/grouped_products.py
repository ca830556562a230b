"""Matrix products of groups of different sizes, as mixtures of experts take."""

from __future__ import annotations

import itertools
from typing import Any

from ember import dtypes
from ember.core.registry import F, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.ops.joining import cat, stack
from ember.ops.matmul import matmul


def _check_groups(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, out_dtype: Any) -> None:
    kinds = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        check(matrix.ndim in (2, 3), RuntimeError, f"{name} has to be 2 or 3d")
        check(
            matrix.dtype in kinds,
            RuntimeError,
            f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {matrix.dtype.title}",
        )
    check(
        mat_a.dtype is mat_b.dtype,
        RuntimeError,
        f"expected m1 and m2 to have the same dtype, but got: {mat_a.dtype} != {mat_b.dtype}",
    )
    check(
        mat_a.shape[-1] == mat_b.shape[-2],
        RuntimeError,
        "contraction dimension of mat_a and mat_b must match",
    )
    check(
        (offs is None) == (mat_a.ndim == mat_b.ndim == 3),
        RuntimeError,
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d",
    )
    check(
        offs is None or (offs.ndim == 1 and offs.dtype is dtypes.int32),
        RuntimeError,
        "Offsets have to be int32",
    )
    groups = {m.shape[0] for m in (mat_a, mat_b) if m.ndim == 3}
    groups |= set() if offs is None else {offs.shape[0]}
    check(len(groups) == 1, RuntimeError, "matrix batch sizes have to match")
    check(
        out_dtype in (None, mat_a.dtype),
        RuntimeError,
        "Grouped gemm output dtype must match `mat_a` dtype",
    )


@composite(F)
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """The product of each group: offs[i] is where group i ends along the dim that matrices of two
    dims are cut along (rows of `mat_a`, columns of `mat_b`, or what is summed over, of both).

    Rows or columns behind the last group are 0.

    >>> import ember as torch
    >>> a, b = torch.ones(3, 2), torch.tensor([1.0, 2.0]).reshape(2, 1, 1).expand(2, 2, 1)
    >>> ends = torch.tensor([1, 3], dtype=torch.int32)
    >>> torch.nn.functional.grouped_mm(a, b, offs=ends).flatten()
    tensor([2., 4., 4.])
    """
    check(bias is None, RuntimeError, "Bias not supported yet")
    _check_groups(mat_a, mat_b, offs, out_dtype)
    if offs is None:
        return matmul(mat_a, mat_b)
    ends = [0, *offs.tolist()]  # type: ignore[attr-defined]
    pieces = list(itertools.pairwise(ends))
    if mat_a.ndim == mat_b.ndim == 2:
        return stack([matmul(mat_a[:, s:e], mat_b[s:e]) for s, e in pieces])
    if mat_a.ndim == 2:
        made = [matmul(mat_a[s:e], mat_b[i]) for i, (s, e) in enumerate(pieces)]
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[-1])
        return cat([*made, rest], 0)
    made = [matmul(mat_a[i], mat_b[:, s:e]) for i, (s, e) in enumerate(pieces)]
    rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[-1] - ends[-1])
    return cat([*made, rest], 1)
