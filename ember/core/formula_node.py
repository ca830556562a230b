"""The recorded form of a formula op."""

from __future__ import annotations

from typing import Any

from ember.core import dispatch, modes
from ember.core.node import FREED, Node, Saved
from ember.core.plan import Recipe
from ember.core.slot import executor_slot
from ember.core.tensor import Tensor
from ember.kernel.array import Array

_new = object.__new__


def _run(op: Any, values: list[Any]) -> Any:
    """A derived op of tensors and numbers: these alone are the key of its plan."""
    if not modes.SPECIAL[0]:
        key = [v._array.spec if isinstance(v, Tensor) else type(v) for v in values]
        plan = op.plans.get(tuple(key))
        if plan is not None:
            return op.execute(plan, values)
    return op.run(values)


class FormulaNode(Node):
    """A recorded formula op: each input's gradient is a formula op of g and what it saved."""

    __slots__ = ("recipe", "saved")
    recipe: Recipe
    saved: dict[str, Any]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """One derived op for each input that needs a gradient."""
        if not modes.state.grad and not modes.SPECIAL[0]:
            found = self._apply_unrecorded(grads[0])
            if found is not None:
                return found
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
                values = [g, *[known[n] for n in names]]
                found = op.run([*values, recipe.axes]) if op.rows else _run(op, values)
            made = found._array.spec
            if made is not spec and (made.shape != spec.shape or made.dtype is not spec.dtype):
                found = dispatch.unbroadcast(found, spec)
            results.append(found)
        return tuple(results)

    def _apply_unrecorded(self, g: Any) -> tuple[Any, ...] | None:
        """The same of arrays, where nobody records; None where a plan is yet to be made."""
        known: dict[str, Any] = {}
        for name, value in self.saved.items():
            known[name] = value.unpack_array(self) if type(value) is Saved else value
        results: list[Any] = []
        recipe, slot = self.recipe, executor_slot[0]
        array = g._array
        for rule, spec, edge in zip(recipe.rules, recipe.in_specs, self.edges):
            if rule is None or edge[0] is None or spec is None:
                results.append(None)
                continue
            op, names = rule
            if not names and op.is_identity:
                found = g
            else:
                operands = [array]
                for name in names:
                    operands.append(known[name])
                key = [o.spec if isinstance(o, Array) else type(o) for o in operands]
                if op.rows:
                    key.append(dispatch.hashable(recipe.axes))
                plan = op.plans.get(tuple(key))
                if plan is None:
                    return None
                found = _new(Tensor)
                found._array = (
                    plan.runner(*operands)
                    if slot is None
                    else slot.run(plan.call, plan.runner, tuple(operands))
                )
            made = found._array.spec
            if made is not spec and (made.shape != spec.shape or made.dtype is not spec.dtype):
                found = dispatch.unbroadcast(found, spec)
            results.append(found)
        return tuple(results)

    def release(self) -> None:
        """Forget saved tensors; and saved numbers where PyTorch saves them as tensors, so that a
        second backward is refused there too."""
        if not self.saved:
            return
        for value in self.saved.values():
            if isinstance(value, Saved):
                value.release()
        if self.recipe.frees_numbers:
            self.saved = dict.fromkeys(self.saved, FREED)
