"""Numbers that may be symbols: `torch.SymInt` and functions that take them or Python's.

Ember always knows the sizes of its tensors, so no number of its own is a symbol. The classes exist
to be asked for with `isinstance`; the functions work on Python's numbers.
"""

from __future__ import annotations

import math
from typing import Any

from ember.errors import check

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _Symbol:
    def __init__(self, node: Any):
        self.node = node

    def __repr__(self) -> str:
        return str(self.node)


class SymInt(_Symbol):
    """An int that is a symbol; no size of an Ember tensor is one."""


class SymFloat(_Symbol):
    """A float that is a symbol; no number of Ember's is one."""


class SymBool(_Symbol):
    """A bool that is a symbol; no condition of Ember's is one."""


def sym_int(a: Any) -> Any:
    """`a` as an int, rounded towards zero."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> Any:
    """`a` as a float."""
    return a if isinstance(a, SymFloat) else float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a float if one of them is.

    >>> import ember as torch
    >>> torch.sym_max(3, 2.0)
    3.0
    """
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float if one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_not(a: Any) -> Any:
    """The logical negation."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b`, else `f`; AssertionError unless `b` is a bool and both are of one type."""
    check(
        isinstance(b, (SymBool, bool)),
        AssertionError,
        f"expected SymBool or bool, got {type(b)}",
    )
    check(type(t) is type(f), AssertionError, f"expected same types, got {type(t)} vs {type(f)}")
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of numbers given in a sequence."""
    return sum(args) if isinstance(args, (list, tuple)) else args


def sym_sqrt(a: Any) -> Any:
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """The number itself: there is no symbol to make anew."""
    return expr


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless min <= size <= max."""
    low = -(2**63) if min is None else min
    high = 2**63 - 1 if max is None else max
    check(
        low <= size <= high,
        RuntimeError,
        f"Invalid value range for {size} between [{low}, {high}].",
    )


def sym_constrain_range_for_size(
    size: Any, *, min: int | None = None, max: int | None = None
) -> None:
    """RuntimeError unless min <= size <= max, for a size that tells tensors' shapes."""
    check(
        max is None or max > 2,
        RuntimeError,
        f"Max value to constrain_range_for_size must be greater than 2. got: {max}",
    )
    sym_constrain_range(size, min=min, max=max)
