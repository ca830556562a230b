"""Forward mode with dual tensors: a value and its tangent go through ops together.

Inside a dual level ops record, and `unpack_dual` pushes the tangents of the level's dual tensors
through what was recorded: see func/forward.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ember.core import modes
from ember.core.dispatch import is_differentiable
from ember.core.node import edge_of
from ember.core.tensor import Tensor, connected, needs_grad
from ember.errors import check
from ember.func.forward import fitted, push
from ember.func.gradients import check_tangent
from ember.func.tape import Input, level_of, outside

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: the value, and its tangent (None if it has none)."""

    primal: Any
    tangent: Any


class _Level:
    """The dual level in force: what was recorded before it, and whether recording was on."""

    def __init__(self) -> None:
        self.before = modes.state.grad, modes.state.forward
        modes.state.grad = modes.state.forward = True

    def leave(self) -> None:
        modes.state.grad, modes.state.forward = self.before


class _Dual(Input):
    """Where a dual tensor enters."""

    __slots__ = ("level", "tangent")


_levels: list[_Level] = []


def enter_dual_level() -> int:
    """Start a dual level, and return its number, 0. RuntimeError inside another one."""
    check(not _levels, RuntimeError, "Nested forward mode AD is not supported at the moment")
    _levels.append(_Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the dual level: its tangents are gone."""
    check(_levels, RuntimeError, "Dual level must be a positive number: there is none to exit.")
    check(
        level in (None, 0),
        RuntimeError,
        "Trying to exit a forward AD level that was not the last one that was created. This is "
        "not supported.",
    )
    _levels.pop().leave()


class dual_level:
    """A block with a dual level.

    >>> import ember as torch
    >>> import ember.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.), torch.tensor(1.))
    ...     fwAD.unpack_dual(x ** 2).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()

    def __call__(self, function: Any) -> Any:
        """A function whose calls run in a dual level."""
        return modes.decorated(self, function)

    def clone(self) -> dual_level:
        """A fresh one for a call of a decorated function."""
        return dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of a tensor with a tangent of its shape, which results computed from it will have
    too. RuntimeError outside a dual level, ValueError for integers."""
    check(
        _levels,
        RuntimeError,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
        "enter_dual_level() first.",
    )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        check(
            isinstance(value, Tensor) and is_differentiable(value._array.spec.dtype),
            ValueError,
            lambda name=name, value=value: (
                f"Expected {name} to be floating point or complex, but got: "
                f"{getattr(value, 'dtype', type(value))}"
            ),
        )
    check(
        not _duals_of(tensor),
        RuntimeError,
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
        "level 0 is not supported.",
    )
    check_tangent(tensor, tangent)
    node = _Dual(tensor, None, _levels[-1].before[0])
    node.level, node.tangent = _levels[-1], tangent
    return connected(tensor._array, node)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent) of a tensor; the tangent is None if it depends on no dual tensor, or
    outside a dual level."""
    if not _levels or not isinstance(tensor, Tensor):
        return UnpackedDualTensor(tensor, None)
    seeds = {(n, 0): fitted(n.tangent, n.out_specs[0]) for n in _duals_of(tensor)}
    recording = _levels[-1].before[0]
    if not seeds:
        return UnpackedDualTensor(tensor, None)
    modes.state.grad, modes.state.forward = recording, False
    try:
        (found,) = push([tensor], seeds, level_of(tensor))
    finally:
        modes.state.grad = modes.state.forward = True
    return UnpackedDualTensor(outside(tensor, recording), found)


def _duals_of(tensor: Any) -> list[_Dual]:
    """The dual tensors of the level in force that a tensor was computed from."""
    if not needs_grad(tensor):
        return []
    stack: list[Any] = [edge_of(tensor)[0]]
    seen, found = set(stack), []
    while stack:
        node = stack.pop()
        if isinstance(node, _Dual):
            if node.level is _levels[-1]:
                found.append(node)
            continue
        for target, _ in node.edges:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)
    return found
