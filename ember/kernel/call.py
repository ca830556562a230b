"""`Call`: what to compute, without the data. Made once when an op meets specs that it has not seen,
then kept."""

from __future__ import annotations

from typing import Any

from ember.dtypes import dtype as DType
from ember.kernel.array import Spec
from ember.scalar.expr import Expr


class Call:
    """One kernel launch: frozen and shared, so that running an op again allocates nothing but its
    result.

    The operands come separately. Subclasses say what kind of kernel it is; `writes` names the
    operands, by position, that the results are stored into instead of fresh arrays.
    """

    __slots__ = ("in_specs", "name", "out_specs", "writes")

    def __init__(
        self,
        name: str,
        in_specs: tuple[Any, ...],
        out_specs: tuple[Spec, ...],
        writes: tuple[int, ...] = (),
    ):
        self.name, self.in_specs, self.out_specs, self.writes = name, in_specs, out_specs, writes

    def with_specs(self, in_specs: tuple[Any, ...], out_specs: tuple[Spec, ...]) -> Any:
        """The same call of other arrays."""
        made = object.__new__(type(self))
        for kind in type(self).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                setattr(made, slot, getattr(self, slot))
        made.in_specs, made.out_specs = in_specs, out_specs
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.in_specs} -> {self.out_specs})"


class MapCall(Call):
    """Formulas over broadcast operands: elementwise, or row programs where `axes` name the dims of
    a row.

    `roots` are the results' formulas over the variables `names`, computed in `compute`; `keeps` are
    the variables that are not cast to it (conditions, exponents).
    """

    __slots__ = ("axes", "compute", "keeps", "names", "roots")

    def __init__(
        self,
        name: str,
        in_specs: tuple[Any, ...],
        out_specs: tuple[Spec, ...],
        *,
        roots: tuple[Expr, ...],
        names: tuple[str, ...],
        compute: DType,
        keeps: frozenset[str] = frozenset(),
        axes: tuple[int, ...] = (),
        writes: tuple[int, ...] = (),
    ):
        super().__init__(name, in_specs, out_specs, writes)
        self.roots, self.names, self.compute, self.keeps, self.axes = (
            roots,
            names,
            compute,
            keeps,
            axes,
        )


class ReduceCall(Call):
    """A reduction: `map` each element, combine with an associative primitive over `axes`, `finish`
    the total."""

    __slots__ = ("accumulate", "axes", "combine", "keepdim", "zero")

    def __init__(
        self,
        name: str,
        in_specs: tuple[Any, ...],
        out_specs: tuple[Spec, ...],
        *,
        combine: str,
        zero: Any,
        accumulate: DType,
        axes: tuple[int, ...],
        keepdim: bool,
    ):
        super().__init__(name, in_specs, out_specs)
        self.combine, self.zero, self.accumulate, self.axes, self.keepdim = (
            combine,
            zero,
            accumulate,
            axes,
            keepdim,
        )


class LibraryCall(Call):
    """A kernel that a backend brings: matmul, convolution, sort ...

    `upcast` says that half-precision operands are computed in float32 and rounded after.
    """

    __slots__ = ("kernel", "upcast")

    def __init__(
        self,
        name: str,
        in_specs: tuple[Any, ...],
        out_specs: tuple[Spec, ...],
        *,
        kernel: str,
        upcast: bool,
    ):
        super().__init__(name, in_specs, out_specs)
        self.kernel, self.upcast = kernel, upcast
