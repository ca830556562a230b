"""Activations: the formulas, and torch.nn.functional's functions over them with `inplace=`."""

from __future__ import annotations

import math
from typing import Any

from ember.core.registry import FUNCTION, METHOD, OUT, F, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING, INEXACT, REAL, bool_
from ember.errors import check
from ember.scalar import primitives as p
from ember.scalar.primitives import where

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

# formulas


@elementwise(accepts=REAL, refusal="Boolean inputs not supported for relu")
def relu(input: Any) -> Any:
    """max(input, 0); NaN stays, the slope at 0 is 0."""
    return where(p.le(input, 0), 0, input)


relu.grad = lambda g, result: (where(p.le(result, 0), 0, g),)


@elementwise(name="relu6", accepts=REAL, refusal="Boolean inputs not supported for relu6")
def relu_to_six(input: Any) -> Any:
    """input held between 0 and 6."""
    return where(p.le(input, 0), 0, where(p.ge(input, 6), 6, input))


@elementwise(F | OUT, accepts=FLOATING)
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """x·Φ(x), with Φ the normal CDF; "tanh" takes its tanh fit. Hendrycks and Gimpel 2016.

    >>> import ember as torch
    >>> torch.nn.functional.gelu(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    if approximate == "tanh":
        inner = SQRT_2_OVER_PI * (input + 0.044715 * (input * input * input))
        return input * p.sigmoid(2 * inner)  # (1 + tanh(t)) / 2 is sigmoid(2t), and cheaper
    check(
        approximate == "none",
        RuntimeError,
        f"approximate argument must be either none or tanh, got {approximate!r}",
    )
    return input * 0.5 * (1 + p.erf(input * SQRT_HALF))


@elementwise(accepts=INEXACT)
def silu(input: Any) -> Any:
    """x · sigmoid(x)."""
    return input * p.sigmoid(input)


@elementwise(F | OUT, accepts=FLOATING)
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return p.minimum(input, 0) - p.log1p(p.exp(-p.abs(input)))


logsigmoid.grad = lambda g, input: (g * p.sigmoid(-input),)


@elementwise(F | OUT, accepts=FLOATING)
def softplus(input: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """log(1 + exp(beta·x)) / beta; x itself where beta·x exceeds the threshold."""
    scaled = input * beta
    return where(p.gt(scaled, threshold), input, p.log1p(p.exp(scaled)) / beta)


softplus.grad = lambda g, input, beta, threshold: (
    where(p.gt(input * beta, threshold), g, g * p.sigmoid(input * beta)),
)


@elementwise(accepts=FLOATING)
def elu(input: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    """x where x > 0, else alpha · (exp(x) - 1)."""
    return where(p.gt(input, 0), input * scale, scale * alpha * p.expm1(input * input_scale))


@elementwise(accepts=FLOATING)
def celu(input: Any, alpha: Any = 1.0) -> Any:
    """x where x > 0, else alpha · (exp(x / alpha) - 1). Barron 2017."""
    return where(p.gt(input, 0), input, alpha * p.expm1(input / alpha))


@elementwise(accepts=FLOATING)
def selu(input: Any) -> Any:
    """elu with the scale and alpha that keep mean 0 and variance 1. Klambauer et al. 2017."""
    return where(p.gt(input, 0), SELU_SCALE * input, SELU_SCALE * SELU_ALPHA * p.expm1(input))


@elementwise(accepts=FLOATING)
def leaky_relu(input: Any, negative_slope: Any = 0.01) -> Any:
    """x where x > 0, else negative_slope · x."""
    return where(p.gt(input, 0), input, negative_slope * input)


@elementwise(accepts=REAL)
def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """x held between two bounds; the slope at a bound is 0."""
    return where(p.le(input, min_val), min_val, where(p.ge(input, max_val), max_val, input))


@elementwise(accepts=FLOATING)
def hardsigmoid(input: Any) -> Any:
    """x/6 + 1/2 held between 0 and 1."""
    return where(p.le(input, -3), 0, where(p.ge(input, 3), 1, (input + 3) / 6))


@elementwise(accepts=FLOATING)
def hardswish(input: Any) -> Any:
    """x · hardsigmoid(x). Howard et al. 2019."""
    return where(p.le(input, -3), 0, where(p.ge(input, 3), input, input * (input + 3) / 6))


@elementwise(accepts=FLOATING)
def mish(input: Any) -> Any:
    """x · tanh(softplus(x)). Misra 2019."""
    soft = where(p.gt(input, 20), input, p.log1p(p.exp(input)))
    return input * p.tanh(soft)


@elementwise(F | FUNCTION | METHOD | OUT, accepts=FLOATING)
def hardshrink(input: Any, lambd: Any = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    return where(p.ge(input, -lambd) & p.le(input, lambd), 0, input)


@elementwise(F | OUT, accepts=FLOATING)
def softshrink(input: Any, lambd: Any = 0.5) -> Any:
    """x moved by lambd towards 0, and 0 between."""
    return where(
        p.gt(input, lambd), input - lambd, where(p.lt(input, -lambd), input + lambd, input * 0)
    )


def _check_lambda(input: Any, lambd: Any) -> None:
    check(
        lambd >= 0, RuntimeError, f"lambda must be greater or equal to 0, but found to be {lambd}."
    )


softshrink.checks = _check_lambda


@composite(F)
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


@composite(F)
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


@elementwise(accepts=REAL, name="threshold")
def above_threshold(input: Any, threshold: Any, value: Any) -> Any:
    """x where x > threshold, else value."""
    return where(p.le(input, threshold), value, input)


above_threshold.grad = lambda g, input, threshold: (where(p.le(input, threshold), 0, g),)

# functions with inplace=


def _run(op: Any, inplace: bool, *args: Any) -> Tensor:
    return op.inplace(*args) if inplace else op(*args)


def _plain(op: Any, name: str) -> None:
    """A function of the input alone."""

    def call(input: Tensor, inplace: bool = False) -> Tensor:
        return _run(op, inplace, input)

    call.__name__, call.__doc__ = name, op.__doc__
    composite(F, name=name)(call)


for _op in (relu, relu_to_six, silu, mish, hardsigmoid, hardswish, selu):
    _plain(_op, _op.name)


@composite(F, name="elu")
def elu_function(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha · (exp(x) - 1). Clevert et al. 2015."""
    return _run(elu, inplace, input, alpha)


def _check_alpha(alpha: float) -> None:
    check(alpha != 0, RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU")


@composite(F, name="celu")
def celu_function(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha · (exp(x / alpha) - 1). Barron 2017."""
    _check_alpha(alpha)
    return _run(celu, inplace, input, alpha)


@composite(F, name="leaky_relu")
def leaky_relu_function(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False
) -> Tensor:
    """x where x > 0, else negative_slope · x."""
    return _run(leaky_relu, inplace, input, negative_slope)


@composite(F, name="hardtanh")
def hardtanh_function(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x held between two bounds. ValueError if they are in the wrong order."""
    check(min_val <= max_val, ValueError, "min_val cannot be greater than max_val")
    check(input.dtype is not bool_, RuntimeError, "Bool inputs not supported for hardtanh")
    if input.dtype not in FLOATING:
        min_val, max_val = int(min_val), int(max_val)
    return _run(hardtanh, inplace, input, min_val, max_val)


@composite(F, name="threshold")
def threshold_function(
    input: Tensor, threshold: float, value: float, inplace: bool = False
) -> Tensor:
    """x where x > threshold, else value."""
    return _run(above_threshold, inplace, input, *_in_type(input, threshold, value))


def _in_type(input: Tensor, *values: float) -> list[Any]:
    """Numbers as the dtype of an integer tensor holds them."""
    return [v if input.dtype in FLOATING else int(v) for v in values]


# in place, and in the torch namespace

for _op in (relu, elu, celu, selu, leaky_relu, hardtanh, above_threshold):

    def _written(input: Tensor, *args: Any, _op: Any = _op, **kwargs: Any) -> Tensor:
        return _op.inplace(input, *args, **kwargs)

    _written.__name__, _written.__doc__ = f"{_op.name}_", f"`{_op.name}` written into its input."
    _space = F | FUNCTION if _op in (relu, celu, selu, above_threshold) else F
    composite(_space | METHOD if _op is relu else _space, name=f"{_op.name}_")(_written)


@composite(FUNCTION | METHOD, name="relu")
def relu_plain(input: Tensor) -> Tensor:
    """max(input, 0)."""
    return relu(input)


@composite(FUNCTION, name="selu")
def selu_plain(input: Tensor) -> Tensor:
    """elu with the scale and alpha that keep mean 0 and variance 1. Klambauer et al. 2017."""
    return selu(input)


@composite(FUNCTION, name="celu")
def celu_plain(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha · (exp(x / alpha) - 1)."""
    _check_alpha(alpha)
    return celu(input, alpha)


@composite(FUNCTION, name="threshold")
def threshold_plain(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else value."""
    return above_threshold(input, *_in_type(input, threshold, value))
