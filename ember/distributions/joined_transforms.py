"""Transforms of the parts of a tensor along a dim, each by its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember import ops
from ember.distributions import constraints
from ember.distributions.transform import Transform
from ember.distributions.utils import _sum_rightmost
from ember.errors import check


def _checked(tseq: Sequence[Any], cache_size: int) -> list[Any]:
    check(
        all(isinstance(transform, Transform) for transform in tseq),
        AssertionError,
        "All elements of tseq must be Transform instances",
    )
    return [transform.with_cache(cache_size) for transform in tseq] if cache_size else list(tseq)


def _check_dim(dim: int, value: Any, count: int) -> None:
    check(-value.dim() <= dim < value.dim(), AssertionError, f"no dim {dim} in {value.dim()} dims")
    size = value.size(dim)
    check(size == count, AssertionError, f"dim {dim} must be of size {count}, not {size}")


class CatTransform(Transform):
    """Parts of `lengths` (1 each by default) along `dim`, each mapped by its transform.

    >>> import ember as torch
    >>> from ember.distributions.transforms import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform])(torch.zeros(2))
    tensor([1., 0.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.transforms = transforms
        self.lengths = [1] * len(transforms) if lengths is None else list(lengths)
        check(
            len(self.lengths) == len(transforms),
            AssertionError,
            f"lengths must be as many as tseq: {len(self.lengths)} and {len(transforms)}",
        )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(transform.event_dim for transform in self.transforms)

    @property
    def length(self) -> int:
        """The size of the whole along the dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        _check_dim(self.dim, value, self.length)
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Any) -> Any:
        return ops.cat([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y: Any) -> Any:
        return ops.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for transform, a, b in zip(self.transforms, self._parts(x), self._parts(y)):
            term = transform.log_abs_det_jacobian(a, b)
            terms.append(_sum_rightmost(term, self.event_dim - transform.event_dim))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return ops.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The set of x."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The set of y."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Slices along `dim`, each mapped by its transform.

    >>> import ember as torch
    >>> from ember.distributions.transforms import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([ExpTransform(), identity_transform])(torch.zeros(2))
    tensor([1., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.transforms = transforms
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, value: Any) -> list[Any]:
        _check_dim(self.dim, value, len(self.transforms))
        return list(value.unbind(self.dim))

    def _call(self, x: Any) -> Any:
        return ops.stack([t(part) for t, part in zip(self.transforms, self._slice(x))], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._slice(y))
        return ops.stack([t.inv(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._slice(x), self._slice(y))
        return ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], dim=self.dim)

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The set of x."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The set of y."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
