"""`PassBase`: a function from a graph module to a changed one, and what it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """A graph module, and whether the pass changed it."""

    graph_module: Any
    modified: bool


class PassBase:
    """Calls `requires`, `call` and `ensures` on a graph module; subclasses define `call`."""

    def __call__(self, graph_module: Any) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: Any) -> PassResult | None:
        """The pass itself."""
        raise NotImplementedError("a PassBase defines call(graph_module)")

    def requires(self, graph_module: Any) -> None:
        """Check what the pass needs."""

    def ensures(self, graph_module: Any) -> None:
        """Check what the pass promises."""
