"""Transforms of vectors and matrices: softmax, stick breaking, Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from ember import linalg, ops
from ember.distributions import constraints
from ember.distributions.transform import Transform
from ember.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from ember.dtypes import finfo
from ember.errors import check
from ember.ops.activations import logsigmoid, softplus
from ember.ops.padding import pad


def _clipped_sigmoid(x: Any) -> Any:
    limits = finfo(x.dtype)
    return ops.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)


def _with_dims(shape: Any, dims: int) -> Any:
    check(len(shape) >= dims, ValueError, "Too few dimensions on input")
    return shape


class _EqualByType(Transform):
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = None  # type: ignore[assignment]


class SoftmaxTransform(_EqualByType):
    """Vectors to the simplex, y = softmax(x); not bijective: a constant added to x is lost.

    >>> import ember as torch
    >>> torch.distributions.SoftmaxTransform()(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _with_dims(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        return _with_dims(shape, 1)


class StickBreakingTransform(_EqualByType):
    """Vectors of n numbers to the simplex of n + 1, bijectively.

    Each number breaks its share, a sigmoid, off what is left of a stick of length 1; x = 0 gives
    equal parts.

    >>> import ember as torch
    >>> torch.distributions.StickBreakingTransform()(torch.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _left(x: Any) -> Any:
        """n, n - 1 ... 1: the parts that are still to come."""
        n = x.shape[-1]
        return n + 1 - x.new_ones(n).cumsum(-1)

    def _call(self, x: Any) -> Any:
        share = _clipped_sigmoid(x - self._left(x).log())
        rest = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        parts = y[..., :-1]
        rest = 1 - parts.cumsum(-1)
        # what is left can round to 0 or below
        rest = rest.clamp(min=finfo(y.dtype).tiny)
        return parts.log() - rest.log() + self._left(parts).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._left(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return _with_dims(shape, 1)[:-1] + type(shape)((shape[-1] + 1,))

    def inverse_shape(self, shape: Any) -> Any:
        return _with_dims(shape, 1)[:-1] + type(shape)((shape[-1] - 1,))


class LowerCholeskyTransform(_EqualByType):
    """Square matrices to lower triangular ones with a positive diagonal, exp of x's.

    >>> import ember as torch
    >>> torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_EqualByType):
    """Square matrices to positive definite ones, L·Lᵀ with L of `LowerCholeskyTransform`.

    >>> import ember as torch
    >>> torch.distributions.PositiveDefiniteTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors of n × n correlation matrices.

    tanh of the numbers are canonical partial correlations; each takes its share of what is left of
    the unit length of its row (Lewandowski, Kurowicka & Joe 2009; the Stan reference manual).

    >>> import ember as torch
    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=eps - 1, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        n = partial.shape[-1]
        partial = partial + ops.eye(n, dtype=partial.dtype, device=partial.device)
        return partial * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - (y * y).cumsum(-1)
        left = tril_matrix_to_vec(pad(left[..., :-1], [1, 0], value=1), diag=-1)
        partial = tril_matrix_to_vec(y, diag=-1) / left.sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # tanh first, and then the shares: column j of a row is scaled by what is left before it
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        shares = 0.5 * left.log().sum(-1)
        return shares - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        count = _with_dims(shape, 1)[-1]
        n = (1 + math.isqrt(1 + 8 * count)) // 2
        check(
            n * (n - 1) // 2 == count,
            ValueError,
            "Input is not a flattened lower-diagonal number",
        )
        return shape[:-1] + type(shape)((n, n))

    def inverse_shape(self, shape: Any) -> Any:
        n = _with_dims(shape, 2)[-1]
        check(shape[-2] == n, ValueError, "Input is not square")
        return shape[:-2] + type(shape)((n * (n - 1) // 2,))
