"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.autograd.function import Function
from ember.distributions import constraints
from ember.distributions.exp_family import ExponentialFamily
from ember.errors import check
from ember.layout import Size
from ember.ops.embedding import one_hot

__all__ = ["Dirichlet"]


class _DirichletNumbers(Function):
    """Rows that sum to 1, as a function of the concentrations.

    Their gradients are implicit (Figurnov, Mohamed & Mnih 2018): how each number moves, less what
    keeps the sum of the row.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        numbers = ops._sample_dirichlet(concentration)
        ctx.save_for_backward(numbers, concentration)
        return numbers

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        numbers, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = ops._dirichlet_grad(numbers, concentration, total)
        return slope * (grad_output - (numbers * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Π xᵢ^(aᵢ - 1) / B(a) over x >= 0 with sum 1, with the concentrations a.

    >>> import ember as torch
    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _expands = ("concentration",)

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        check(
            concentration.dim() >= 1,
            ValueError,
            "`concentration` parameter must be at least one-dimensional.",
        )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        excess = (self.concentration - 1).clamp(min=0)
        mode = excess / excess.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1)  # endless at every corner: the first is given
        corner = one_hot(ops.zeros_like(flat).long(), excess.shape[-1]).to(mode)
        return ops.where(flat.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        rest = total - self.concentration
        return self.concentration * rest / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(Size(sample_shape))
        return _DirichletNumbers.apply(self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Any:
        a = self.concentration
        powers = ops.xlogy(a - 1, self._checked(value)).sum(-1)
        return powers + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        volume = a.lgamma().sum(-1) - total.lgamma()
        return volume - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
