"""Questions about sizes that may be symbolic: here they are plain numbers, so answers are plain."""

from __future__ import annotations

from typing import Any


class GuardOnDataDependentSymNode(RuntimeError):
    """A size that depends on data; sizes are always known here."""


def guard_or_false(a: Any) -> bool:
    """`a`, which is known."""
    return bool(a)


def guard_or_true(a: Any) -> bool:
    """`a`, which is known."""
    return bool(a)


def guard_size_oblivious(expr: Any) -> bool:
    """`expr`, which is known."""
    return bool(expr)


def definitely_true(a: Any) -> bool:
    """`a`, which is known."""
    return bool(a)


def statically_known_true(x: Any) -> bool:
    """`x`, which is known."""
    return bool(x)


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or tuples of them, are equal."""
    return bool(x == y)


def is_concrete_int(a: Any) -> bool:
    """True: every size is a plain number."""
    return isinstance(a, int)


def free_symbols(val: Any) -> set[Any]:
    """The symbols in a size: none."""
    return set()


def free_unbacked_symbols(x: Any) -> set[Any]:
    """The symbols without a value in a size: none."""
    return set()


def has_free_symbols(val: Any) -> bool:
    """Whether a size has symbols: never."""
    return False
