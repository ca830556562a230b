"""`torch.distributions.constraints`: the sets that parameters and samples lie in.

A constraint's `check` tells for each event whether it lies in the set; `event_dim` is the number
of dims of an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ember import linalg, ops
from ember.core.tensor import Tensor
from ember.dtypes import bool_, finfo
from ember.errors import check as ensure

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of events.

    >>> import ember as torch
    >>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """For each event of the value, whether it lies in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters: it has no check of its own."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        ensure(
            self._is_discrete is not NotImplemented,
            NotImplementedError,
            ".is_discrete cannot be determined statically",
        )
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        ensure(
            self._event_dim is not NotImplemented,
            NotImplementedError,
            ".event_dim cannot be determined statically",
        )
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        """The same with what is known before there is an instance."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether the constraint depends on other parameters.

    >>> from ember.distributions import constraints
    >>> constraints.is_dependent(constraints.real)
    False
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of distributions that is a constraint: on the class, a dependent one."""

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:
        """The decorator that keywords were given to."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Events made of the last dims of another constraint's batch: all must lie in its set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        inside = self.base_constraint.check(value)
        dims = self.reinterpreted_batch_ndims
        if inside.ndim < dims:
            wanted = self.base_constraint.event_dim + dims
            raise ValueError(f"Expected value.dim() >= {wanted} but got {value.dim()}")
        return inside.reshape(*inside.shape[: inside.ndim - dims], -1).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: a value must lie in the support of every component.

    >>> from ember.distributions import constraints
    >>> constraints.MixtureSameFamilyConstraint(constraints.real)
    MixtureSameFamilyConstraint(Real())
    """

    def __init__(self, base_constraint: Constraint) -> None:
        ensure(
            isinstance(base_constraint, Constraint),
            AssertionError,
            "base_constraint must be a Constraint",
        )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """Whether the components' events are discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """The dims of a component's event."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        dims = self.event_dim
        ensure(
            value.dim() >= dims, ValueError, f"Expected value.dim() >= {dims} but got {value.dim()}"
        )
        inside = self.base_constraint.check(value.unsqueeze(-1 - dims))
        return inside.all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        digits = ((value == 0) | (value == 1)).all(-1)
        return digits & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """Numbers within bounds, which `repr` names."""

    def __init__(self, **bounds: Any) -> None:
        self.__dict__.update(bounds)

    def __repr__(self) -> str:
        bounds = ", ".join(
            f"{key}={value}" for key, value in vars(self).items() if not key.startswith("_")
        )
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(upper_bound=upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # not NaN


class _GreaterThan(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = linalg.vector_norm(value.detach(), dim=-1)
        unit = ((lengths - 1).abs() <= tolerance).all(-1)
        return lower_cholesky.check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        square_ = value.shape[-2] == value.shape[-1]
        return ops.full(value.shape[:-2], square_, dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        inside = super().check(value)
        if not bool(inside.all()):
            return inside
        return ops.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        inside = super().check(value)
        if not bool(inside.all()):
            return inside
        return linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        inside = super().check(value)
        if not bool(inside.all()):
            return inside
        return linalg.cholesky_ex(value).info.eq(0)


class _Joined(Constraint):
    """Several constraints, each for its part of the value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        ensure(
            all(isinstance(c, Constraint) for c in cseq),
            AssertionError,
            "cseq must be a sequence of Constraints",
        )
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        ensure(
            len(self.lengths) == len(self.cseq),
            AssertionError,
            f"lengths must be as many as cseq: {len(self.lengths)} and {len(self.cseq)}",
        )

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Any:
        ensure(
            -value.dim() <= self.dim < value.dim(), AssertionError, f"no dim {self.dim} in value"
        )
        starts = accumulate(self.lengths, initial=0)
        parts = [value.narrow(self.dim, at, n) for at, n in zip(starts, self.lengths)]
        return ops.cat([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class _Stack(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Any:
        ensure(
            -value.dim() <= self.dim < value.dim(), AssertionError, f"no dim {self.dim} in value"
        )
        parts = value.unbind(self.dim)
        return ops.stack([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
