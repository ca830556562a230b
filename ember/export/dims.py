"""Names for sizes that may change, as an export would be told of them."""

from __future__ import annotations

from typing import Any

from ember.errors import check


class _Hint:
    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"DimHint({self.name})"


class Dim:
    """A size with a name and bounds.

    >>> from ember.export import Dim
    >>> Dim("batch", max=64)
    Dim('batch', min=0, max=64)
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        low = 0 if min is None else min
        check(
            max is None or max > low,
            AssertionError,
            f"Cannot create Dim with inconsistent min={min}, max={max}",
        )
        check(
            name.isidentifier(), AssertionError, f"Dim name must be a valid identifier, got {name}"
        )
        self.__name__, self.min, self.max = name, low, max

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A `Dim` for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """The sizes of tensors that may change, kept by tensor."""

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        self._shapes[id(t)] = shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes[id(t)]

    def __len__(self) -> int:
        return len(self._shapes)
