"""The recorded form of a formula op."""

from __future__ import annotations

from typing import Any

from ember.core import dispatch
from ember.core.node import FREED, Node, Saved
from ember.core.plan import Recipe


class FormulaNode(Node):
    """A recorded formula op: each input's gradient is a formula op of g and what it saved."""

    __slots__ = ("recipe", "saved")
    recipe: Recipe
    saved: dict[str, Any]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """One derived op for each input that needs a gradient."""
        g = grads[0]
        known: dict[str, Any] = {}
        for name, value in self.saved.items():
            known[name] = value.unpack(self) if isinstance(value, Saved) else value
        results: list[Any] = []
        recipe = self.recipe
        for rule, spec, (target, _) in zip(recipe.rules, recipe.in_specs, self.edges, strict=True):
            if rule is None or target is None or spec is None:
                results.append(None)
                continue
            op, names = rule
            if not names and op.is_identity:
                found = g
            else:
                found = op.run(
                    [g, *(known[n] for n in names), *((recipe.axes,) if op.rows else ())]
                )
            results.append(dispatch.unbroadcast(found, spec))
        return tuple(results)

    def release(self) -> None:
        """Forget saved tensors; and saved numbers where PyTorch saves them as tensors, so that a
        second backward is refused there too."""
        for value in self.saved.values():
            if isinstance(value, Saved):
                value.release()
        if self.recipe.frees_numbers:
            self.saved = dict.fromkeys(self.saved, FREED)
