"""What a formula op keeps between calls: promotion rules, readings of its formula, plans, recipes
for recording."""

from __future__ import annotations

from typing import Any, NamedTuple

from ember import dtypes
from ember.core import dispatch
from ember.dtypes import dtype as DType
from ember.kernel.array import Spec
from ember.kernel.call import MapCall
from ember.scalar.expr import Expr

# promotion rules: (common dtype of the operands) -> (computed in, stored as)


def common(dtype: DType) -> tuple[DType, DType]:
    """Computed and stored in the common dtype."""
    return dtype, dtype


def floats(dtype: DType) -> tuple[DType, DType]:
    """Integers and bools become the default floating-point dtype."""
    dtype = dispatch.floated(dtype)
    return dtype, dtype


def compares(dtype: DType) -> tuple[DType, DType]:
    """Compared in the common dtype, stored as bool."""
    return dtype, dtypes.bool_


def real_part(dtype: DType) -> tuple[DType, DType]:
    """Stored as the real dtype of a complex one."""
    return dtype, dtype.to_real()


class Reading:
    """A formula read for one set of static arguments."""

    __slots__ = ("arguments", "gradients", "keeps", "names", "roots")

    def __init__(
        self,
        roots: tuple[Expr, ...],
        names: tuple[str, ...],
        keeps: frozenset[str],
        arguments: dict[str, Any],
    ):
        self.roots, self.names, self.keeps, self.arguments = roots, names, keeps, arguments
        self.gradients: dict[Any, Any] = {}


class Recipe(NamedTuple):
    """How a run is recorded: made once for a plan and the set of inputs that need gradients."""

    kind: Any  # the node's class
    any: bool
    rules: tuple[Any, ...]  # for each operand (derived op, names that it reads) or None
    edges: tuple[
        tuple[int, bool], ...
    ]  # for each operand its position, and whether a gradient goes there
    saves: tuple[tuple[str, int], ...]
    saves_result: bool
    in_specs: tuple[Spec | None, ...]
    axes: tuple[int, ...]
    frees_numbers: bool = False


NOTHING: dict[str, Any] = {}


class Plan:
    """How an op runs for one set of specs: the call, its runner, and which arguments are
    operands."""

    __slots__ = (
        "axes",
        "call",
        "compute",
        "differentiable",
        "positions",
        "reading",
        "recipes",
        "runner",
    )

    def __init__(self, call: MapCall, runner: Any, positions: tuple[int, ...], reading: Reading):
        self.call, self.runner, self.positions, self.reading = call, runner, positions, reading
        self.compute, self.axes = call.compute, call.axes
        self.recipes: dict[int, Recipe] = {}
        self.differentiable = len(call.out_specs) == 1 and dispatch.is_differentiable(
            call.out_specs[0].dtype
        )
