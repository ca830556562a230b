"""What a reduction over processes computes, on arrays of the host."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ember.errors import check


class RedOpType(enum.IntEnum):
    """The kinds of reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """A reduction over processes: ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR.

    >>> import ember as torch
    >>> torch.distributed.ReduceOp.SUM
    <RedOpType.SUM: 0>
    """

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED

    def __init__(self, op: Any, factor: Any = None):
        check(isinstance(op, RedOpType), TypeError, f"ReduceOp takes ReduceOp.SUM, ..., not {op!r}")
        self.op, self.factor = op, factor

    def __eq__(self, other: object) -> bool:
        return kind_of(self) is kind_of(other) if isinstance(other, ReduceOp | RedOpType) else False

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<torch.distributed.distributed_c10d.ReduceOp {self.op.name}>"


def premul_sum(factor: Any) -> ReduceOp:
    """The sum of `factor` times each."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def kind_of(op: Any) -> RedOpType:
    """The kind of a reduction given as ReduceOp.SUM or as ReduceOp(...)."""
    kind = op.op if isinstance(op, ReduceOp) else op
    check(
        isinstance(kind, RedOpType), TypeError, f"op must be a torch.distributed.ReduceOp: {op!r}"
    )
    return kind  # type: ignore[no-any-return]


def supports_complex(op: Any) -> bool:
    """Whether a reduction has a meaning for complex numbers."""
    return kind_of(op) in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


_UFUNCS = {
    RedOpType.SUM: np.add,
    RedOpType.AVG: np.add,
    RedOpType.PREMUL_SUM: np.add,
    RedOpType.PRODUCT: np.multiply,
    RedOpType.MIN: np.minimum,
    RedOpType.MAX: np.maximum,
    RedOpType.BAND: np.bitwise_and,
    RedOpType.BOR: np.bitwise_or,
    RedOpType.BXOR: np.bitwise_xor,
}
_BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)


def check_reducible(op: Any, dtype: Any) -> None:
    """An error for a reduction that numbers of a dtype do not have."""
    kind = kind_of(op)
    check(
        kind in _UFUNCS,
        RuntimeError,
        f"ReduceOp.{kind.name} names no reduction",
    )
    check(
        kind not in _BITWISE or not (dtype.is_floating_point or dtype.is_complex),
        RuntimeError,
        f"Cannot use ReduceOp.{kind.name} with non-integral dtype",
    )
    check(
        not dtype.is_complex or supports_complex(op),
        ValueError,
        f"all_reduce does not support {kind.name} on complex tensors",
    )


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether numbers are added up as float32: those with fewer bits."""
    return dtype.itemsize < 4 and dtype.kind not in "iub"


def reduced(parts: list[Any], op: Any) -> Any:
    """The arrays of all ranks, in their order, as one; the first is overwritten where it can be.

    Half-precision numbers are added up as float32 and rounded once.
    """
    kind = kind_of(op)
    ufunc, dtype = _UFUNCS[kind], parts[0].dtype
    total = parts[0].astype(np.float32) if is_narrow(dtype) else parts[0]
    if kind is RedOpType.PREMUL_SUM:
        factor = op.factor.cpu().numpy() if hasattr(op.factor, "cpu") else op.factor
        total, parts = total * factor, [parts[0], *(part * factor for part in parts[1:])]
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            ufunc(total, part, out=total, casting="unsafe")
        if kind is RedOpType.AVG:
            total = _divided(total, len(parts))
    return total.astype(dtype, copy=False)


def _divided(total: Any, count: int) -> Any:
    if total.dtype.kind in "iu":
        return np.sign(total) * (np.abs(total) // count)
    return np.true_divide(total, count, out=total) if total.dtype.kind in "fc" else total
