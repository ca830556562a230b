"""Samples drawn by choice or rejection: multinomial, poisson, binomial, gamma, Dirichlet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import find_device
from ember.core.node import Saved
from ember.core.registry import FUNCTION, METHOD, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import broadcast_shapes
from ember.ops.random import result, sampled
from ember.ops.random_fill import ZeroGradient, check_dtype, draw

_CATEGORIES = 1 << 24  # more would be told apart badly by float32
_WIDE = frozenset((dtypes.float32, dtypes.float64))


class NoGradient(ZeroGradient):
    """A draw whose parameters have no gradient: backward through it is an error."""

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """RuntimeError."""
        name = self.name().removesuffix("Backward0").lower()
        raise RuntimeError(
            f"derivative for {name} is not implemented: draw it under torch.no_grad()"
        )


@composite(FUNCTION | METHOD)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Indices drawn in proportion to the weights in each row of `input` (1 or 2 dims), int64.

    Without replacement an index comes once: the greatest of weight/exponential number.
    RuntimeError for weights that are negative, not finite or all 0, and for more samples than
    indices.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.multinomial(torch.tensor([1.0, 0.0, 3.0]), 2)
    tensor([2, 0])
    """
    check(input.ndim in (1, 2), RuntimeError, "prob_dist must be 1 or 2 dim")
    check(
        input.dtype in dtypes.FLOATING,
        RuntimeError,
        f"multinomial only supports floating-point dtypes for input, got: {input.dtype.title}",
    )
    whole = hasattr(num_samples, "__index__")
    kind = type(num_samples).__name__
    check(
        whole,
        TypeError,
        f"multinomial(): argument 'num_samples' (position 2) must be int, not {kind}",
    )
    count = int(num_samples)
    categories = input.shape[-1]
    check(count > 0, RuntimeError, "cannot sample n_sample <= 0 samples")
    check(
        replacement or count <= categories,
        RuntimeError,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    )
    check(categories <= _CATEGORIES, RuntimeError, "number of categories cannot exceed 2^24")
    if out is not None:
        title = out.dtype.title
        check(
            out.dtype is dtypes.int64,
            RuntimeError,
            f"multinomial expects Long tensor out, got: {title}",
        )
    weights = input.detach()
    weights = input.detach()
    target = result("multinomial", out, (*input.shape[:-1], count), weights, dtypes.int64)
    draw(target, generator, "choices" if replacement and count > 1 else "race", weights)
    return target


@composite(FUNCTION)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson counts of the rates in `input`, in its dtype. RuntimeError for negative rates.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.poisson(torch.tensor([0.0, 3.0]))
    tensor([0., 6.])
    """
    check_dtype("poisson_cpu", input.dtype, dtypes.FLOATING)
    target = result("poisson", None, input.shape, input)
    draw(target, generator, "poisson", input.detach())
    return sampled("poisson", target, [input])


@composite(FUNCTION)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Successes of `count` trials of probability `prob`, broadcast, in their floating-point dtype.

    ValueError for integer counts, RuntimeError for two dtypes.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.binomial(torch.tensor([10.0]), torch.tensor([0.5]))
    tensor([7.])
    """
    title = count.dtype.title
    check(
        count.dtype in dtypes.FLOATING,
        ValueError,
        f"binomial only supports floating-point dtypes for count, got: {title}",
    )
    check(
        prob.dtype is count.dtype,
        RuntimeError,
        f"Found dtype {prob.dtype.title} but expected {title}",
    )
    check_dtype("binomial_cpu", count.dtype, _WIDE)
    find_device("binomial", [("count", count), ("prob", prob)], zero_dim_moves=False)
    shape = broadcast_shapes(count.shape, prob.shape)
    target = result("binomial", None, shape, count)
    counts, probabilities = (t.detach().expand(shape) for t in (count, prob))
    draw(target, generator, "binomial", counts, probabilities)
    return sampled("binomial", target, [count, prob], NoGradient)


@composite(FUNCTION)
def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Gamma numbers of the given shapes and scale 1; differentiable in the shapes."""
    check_dtype("gamma_cpu", self.dtype, _WIDE)
    target = result("_standard_gamma", None, self.shape, self)
    draw(target, generator, "standard_gamma", self.detach())
    return sampled("standard_gamma", target, [self], GammaGradient)


@library_op(Library.standard_gamma_slope, FUNCTION)
def _standard_gamma_grad(self: Tensor, output: Tensor) -> Any:
    """How gamma numbers `output` move with their shape, at a fixed value of the distribution."""
    check_dtype("_standard_gamma_grad_cpu", self.dtype, _WIDE)
    return self._array.spec.with_shape(broadcast_shapes(self.shape, output.shape))


@library_op(Library.dirichlet_slope, FUNCTION)
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Any:
    """How Dirichlet numbers `x` move with their concentration, before the row is scaled to 1."""
    check_dtype("_dirichlet_grad_cpu", x.dtype, _WIDE)
    return x._array.spec.with_shape(broadcast_shapes(x.shape, alpha.shape, total.shape))


class GammaGradient(ZeroGradient):
    """Gamma numbers as a recorded op."""

    def __init__(self, inputs: Sequence[Tensor], output: Tensor):
        super().__init__(inputs, output)
        self.shapes, self.output = Saved(inputs[0]), Saved(output, is_output=True)

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient times how each number moves."""
        shapes, output = self.shapes.unpack(self).detach(), self.output.unpack(self).detach()
        return (grads[0] * _standard_gamma_grad(shapes, output),)

    def release(self) -> None:
        """Forget the saved tensors."""
        self.shapes.release()
        self.output.release()


@composite(FUNCTION)
def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Dirichlet numbers: rows of the last dim are positive and sum to 1."""
    check_dtype("dirichlet", self.dtype, _WIDE)
    target = result("_sample_dirichlet", None, self.shape, self)
    draw(target, generator, "dirichlet", self.detach())
    return sampled("_sample_dirichlet", target, [self], NoGradient)
