"""Elementwise arithmetic, each op as its formula: sums, products, quotients, powers, rounding."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.dispatch import NUMBERS, not_implemented, promoted
from ember.core.formula import floats, real_part
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import ANY, COMPLEX_TYPES, FLOATING, INEXACT, INTEGERS, REAL
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.ops.argument_types import check_tensor, require_tensors
from ember.scalar import primitives as p
from ember.scalar.expr import Expr
from ember.scalar.primitives import where

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT
BOOL = frozenset({dtypes.bool_})
NO_BOOL_MINUS = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the "
    "`~` or `logical_not()` operator instead."
)
NO_BOOL_NEGATIVE = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` "
    "or `logical_not()` operator instead."
)
NO_BOOLS_MINUS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
    "`logical_xor()` operator "
    "instead."
)


def _refuse_bools(operands: list[dtypes.dtype]) -> None:
    """RuntimeError for a mask in a subtraction."""
    bools = [d is dtypes.bool_ for d in operands[:2]]
    check(not all(bools), RuntimeError, NO_BOOLS_MINUS)
    check(not any(bools), RuntimeError, NO_BOOL_MINUS)


def flat(g: Any) -> tuple[Any, ...]:
    """The gradient rule of a step function: 0."""
    return (0,)


def flat_in_both(g: Any) -> tuple[Any, ...]:
    """The gradient rule of a step function of two tensors: 0 by each."""
    return 0, 0


# sums and products


def _check_alpha(input: Any, other: Any, alpha: Any) -> None:
    if alpha == 1 and not isinstance(alpha, bool):
        return
    found = promoted((input, other))
    check(
        not isinstance(alpha, bool) or found is dtypes.bool_,
        RuntimeError,
        "Boolean alpha only supported for Boolean results.",
    )
    check(
        not isinstance(alpha, float) or found.category >= dtypes.FLOAT,
        RuntimeError,
        "For integral input tensors, argument alpha must not be a floating point number.",
    )
    check(
        not isinstance(alpha, complex) or found.is_complex,
        RuntimeError,
        "For non-complex input tensors, argument alpha must not be a complex number.",
    )


@elementwise(API)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha · other.

    >>> import ember as torch
    >>> torch.add(torch.tensor([1, 2]), 10)
    tensor([11, 12])
    """
    return input + alpha * other


@elementwise(API, names=("subtract",), refuse=_refuse_bools)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha · other."""
    return input - alpha * other


@elementwise(PLAIN, refuse=_refuse_bools)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha · input."""
    return other - alpha * input


for _op in (add, sub, rsub):
    _op.checks = _check_alpha
for _op in (add, sub):
    _op.takes_numbers = True


@elementwise(API, names=("multiply",))
def mul(input: Any, other: Any) -> Any:
    """input · other."""
    return input * other


mul.takes_numbers = mul.frees_numbers = True


@elementwise(API, accepts=ANY - BOOL)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value · tensor1 · tensor2."""
    return input + value * (tensor1 * tensor2)


NO_INTEGER_ADDCDIV = (
    "Integer division with addcdiv is no longer supported, and in a future release addcdiv will "
    "perform a true "
    "division of tensor1 and tensor2. Use (input + value * torch.trunc(tensor1 / "
    "tensor2)).to(input.dtype), or "
    "convert to floats first."
)


@elementwise(API, accepts=INEXACT, refusal=NO_INTEGER_ADDCDIV)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value · tensor1 / tensor2."""
    return input + value * (tensor1 / tensor2)


@elementwise(API, accepts=INEXACT)
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight · (end - input), from the nearer end."""
    apart = end - input
    return where(p.lt(p.abs(weight), 0.5), input + weight * apart, end - apart * (1 - weight))


def _check_lerp(input: Any, end: Any, weight: Any) -> None:
    if isinstance(input, Tensor) and input.dtype not in INEXACT:  # a float weight would promote
        kernel = "lerp_kernel_tensor" if isinstance(weight, Tensor) else "lerp_kernel_scalar"
        raise not_implemented(kernel, input.dtype)
    for name, value in (("end", end), ("weight", weight)):
        if isinstance(input, Tensor) and isinstance(value, Tensor):
            check(
                value.dtype is input.dtype,
                RuntimeError,
                f"expected dtype {input.dtype.alias or input.dtype.name} for `{name}` but got "
                "dtype "
                f"{value.dtype.alias or value.dtype.name}",
            )


lerp.checks = _check_lerp


# quotients


@elementwise(promote=floats)
def true_divide(input: Any, other: Any) -> Any:
    """input / other; integers become floats."""
    return input / other


@elementwise(promote=floats)
def share(input: Any, count: Any) -> Any:
    """input / count, for a count that backward may read again and again: a mean's."""
    return input / count


@elementwise(PLAIN | INPLACE, accepts=REAL)
def floor_divide(input: Any, other: Any) -> Any:
    """floor(input / other)."""
    return p.floor_divide(input, other)


@elementwise(accepts=REAL)
def trunc_divide(input: Any, other: Any) -> Any:
    """input / other, rounded towards zero."""
    return p.trunc_divide(input, other)


floor_divide.grad = flat_in_both
trunc_divide.grad = flat_in_both
for _op in (true_divide, floor_divide, trunc_divide):
    _op.takes_numbers = True
true_divide.frees_numbers = True
ROUNDED = {None: true_divide, "floor": floor_divide, "trunc": trunc_divide}


def _rounded(rounding_mode: str | None) -> Any:
    check(
        rounding_mode in ROUNDED,
        RuntimeError,
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'",
    )
    return ROUNDED[rounding_mode]


@composite(PLAIN, names=("divide",))
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; rounding_mode "floor" or "trunc" rounds the quotient and keeps integers.

    >>> import ember as torch
    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    return _rounded(rounding_mode)(input, other)


@composite(METHOD, names=("divide_",))
def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """`div` with its result written into the tensor, which is returned."""
    return _rounded(rounding_mode).inplace(self, other)


@composite(PLAIN, name="true_divide")
def true_division(input: Any, other: Any) -> Tensor:
    """input / other; integers become floats."""
    return true_divide(input, other)


@composite(METHOD)
def true_divide_(self: Tensor, other: Any) -> Tensor:
    """`true_divide` with its result written into the tensor, which is returned."""
    return true_divide.inplace(self, other)


@elementwise(API, accepts=REAL)
def remainder(input: Any, other: Any) -> Any:
    """input - other · floor(input / other): the sign of `other`."""
    return p.remainder(input, other)


@elementwise(API, accepts=REAL)
def fmod(input: Any, other: Any) -> Any:
    """input - other · trunc(input / other): the sign of `input`."""
    return p.fmod(input, other)


@elementwise(API, accepts=INTEGERS)
def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor."""
    return p.gcd(input, other)


@elementwise(API, accepts=INTEGERS)
def lcm(input: Any, other: Any) -> Any:
    """The least common multiple."""
    return p.abs(p.lcm(input, other))


require_tensors((rsub, fmod), 1)
require_tensors((gcd, lcm), 2)

# signs


@elementwise(API, names=("negative",), accepts=ANY - BOOL, refusal=NO_BOOL_NEGATIVE)
def neg(input: Any) -> Any:
    """-input."""
    return -input


@composite(FUNCTION | METHOD)
def positive(input: Tensor) -> Tensor:
    """input itself. RuntimeError for bools."""
    check(
        input.dtype is not dtypes.bool_,
        RuntimeError,
        "The `+` operator, on a bool tensor is not supported.",
    )
    return input


@elementwise(API, names=("absolute",), promote=real_part, name="abs", accepts=ANY - BOOL)
def abs_(input: Any) -> Any:
    """|input|."""
    return p.abs(input)


abs_.grad = lambda g, input: (g * p.sign(input),)


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def sign(input: Any) -> Any:
    """-1, 0 or 1 (NaN stays)."""
    return p.sign(input)


@elementwise(API)
def sgn(input: Any) -> Any:
    """input / |input|; 0 for 0."""
    return p.sign(input)


sign.grad = flat


def _sgn_gradient(g: Any, input: Any) -> tuple[Any, ...]:
    """The part of g across the direction of input, over |input|; 0 at 0 and for real numbers."""
    direction = p.sign(input)
    across = (g - p.conj(g) * direction * direction) / (2 * p.abs(input))
    return (where(p.eq(input, 0), 0, across),)


sgn.grad = _sgn_gradient


@elementwise(API, promote=floats, accepts=FLOATING)
def copysign(input: Any, other: Any) -> Any:
    """|input| with the sign of `other`."""
    return p.copysign(input, other)


require_tensors((copysign,), 1)
copysign.grad = lambda g, input, result: (where(p.eq(input, 0), 0, g * (result / input)), 0)


# powers


@elementwise(API, promote=floats)
def reciprocal(input: Any) -> Any:
    """1 / input."""
    return 1 / input


def bools_count(dtype: DType) -> tuple[DType, DType]:
    """The promotion rule for bools that become int64."""
    dtype = dtypes.int64 if dtype is dtypes.bool_ else dtype
    return dtype, dtype


@elementwise(API, promote=bools_count)
def square(input: Any) -> Any:
    """input²."""
    return input * input


POWERS = (0, 0.5, 1, 2, 3, 4, -0.5, -1, -2, 1.0, 2.0, 3.0, -1.0, -2.0)


@elementwise(literals={"exponent": POWERS}, name="pow", accepts=ANY - BOOL)
def power(input: Any, exponent: Any) -> Any:
    """input to the power `exponent`."""
    if not isinstance(exponent, Expr):
        return _literal_power(input, exponent)
    return p.pow(input, exponent)


def _literal_power(input: Any, exponent: Any) -> Any:
    if exponent == 0.5:
        return p.sqrt(input)
    if exponent == -0.5:
        return p.rsqrt(input)
    if exponent == 3:
        return input * input * input
    if exponent == -1:
        return 1 / input
    if exponent == -2:
        return 1 / (input * input)
    return p.pow(input, exponent)


def _check_exponent(input: Any, exponent: Any) -> None:
    """RuntimeError for an integer tensor to a negative whole number."""
    if isinstance(exponent, int) and exponent < 0:
        check(
            promoted((input, exponent)).category >= dtypes.FLOAT,
            RuntimeError,
            "Integers to negative integer powers are not allowed.",
        )


power.checks = _check_exponent


@composite(PLAIN, name="pow")
def raised(input: Any, exponent: Any) -> Tensor:
    """input to the power `exponent`; either may be a number.

    >>> import ember as torch
    >>> torch.pow(2, torch.tensor([1, 2, 3]))
    tensor([2, 4, 8])
    """
    return power(input, exponent)


@composite(METHOD)
def pow_(self: Tensor, exponent: Any) -> Tensor:
    """`pow` with its result written into the tensor, which is returned."""
    return power.inplace(self, exponent)


@composite(METHOD)
def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power` in place. RuntimeError unless the tensor is float64 or complex128."""
    made = float_power(self, exponent)
    check(
        made.dtype is self.dtype,
        RuntimeError,
        f"the base given to float_power_ has dtype {self.dtype.title} but the operation's result "
        "requires dtype "
        f"{made.dtype.title}",
    )
    return self.copy_(made)


@composite(PLAIN)
def float_power(input: Any, exponent: Any) -> Tensor:
    """input to the power `exponent`, computed in float64 (complex128 for complex numbers)."""
    values = [input, exponent]
    wanted = dtypes.complex128 if promoted(values).is_complex else dtypes.float64
    base, power_ = (v if isinstance(v, NUMBERS) else v.to(wanted) for v in values)
    return power(base, power_)


@elementwise(name="ldexp", accepts=FLOATING, keeps=("other",))
def scaled_by_power(input: Any, other: Any) -> Any:
    """input · 2 to the power of whole numbers, which need not be in reach of the dtype."""
    return p.ldexp(input, other)


scaled_by_power.grad = lambda g, input, other: (p.ldexp(g, other), None)


@composite(API)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input · 2 to the power `other`.

    >>> import ember as torch
    >>> torch.ldexp(torch.tensor([1.0, 3.0]), torch.tensor([2, -1]))
    tensor([4.0000, 1.5000])
    """
    check_tensor("ldexp", "input", 1, input)
    check_tensor("ldexp", "other", 2, other)
    if input.dtype in FLOATING and other.dtype.category < dtypes.FLOAT:
        if other.dtype is dtypes.bool_:
            raise not_implemented("ldexp_cpu_exp", other.dtype)
        return scaled_by_power(input, other)
    if not other.ndim and input.ndim:
        other = other.to(promoted((input, other)))
    return mul(input, power(2.0 + 0j if input.is_complex() else 2.0, other))
