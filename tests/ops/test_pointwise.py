"""Elementwise ops against NumPy and SciPy on a grid of dtypes and layouts; forms; derivatives."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.core.formula import FormulaOp
from ember.core.registry import NAMESPACES, OPS

F = torch.nn.functional
UNARY = {  # the same function in NumPy or SciPy, and the interval that values are drawn from
    "abs": (np.abs, -3, 3),
    "acos": (np.arccos, -0.9, 0.9),
    "acosh": (np.arccosh, 1.1, 5),
    "asin": (np.arcsin, -0.9, 0.9),
    "asinh": (np.arcsinh, -3, 3),
    "atan": (np.arctan, -3, 3),
    "atanh": (np.arctanh, -0.9, 0.9),
    "ceil": (np.ceil, -3, 3),
    "cos": (np.cos, -3, 3),
    "cosh": (np.cosh, -3, 3),
    "deg2rad": (np.deg2rad, -90, 90),
    "digamma": (scipy.special.psi, 0.5, 5),
    "erf": (scipy.special.erf, -3, 3),
    "erfc": (scipy.special.erfc, -3, 3),
    "erfinv": (scipy.special.erfinv, -0.9, 0.9),
    "exp": (np.exp, -3, 3),
    "exp2": (np.exp2, -3, 3),
    "expm1": (np.expm1, -3, 3),
    "floor": (np.floor, -3, 3),
    "frac": (lambda x: x - np.trunc(x), -3, 3),
    "i0": (scipy.special.i0, -3, 3),
    "lgamma": (scipy.special.gammaln, 0.5, 5),
    "log": (np.log, 0.1, 5),
    "log10": (np.log10, 0.1, 5),
    "log1p": (np.log1p, -0.5, 5),
    "log2": (np.log2, 0.1, 5),
    "logit": (scipy.special.logit, 0.1, 0.9),
    "neg": (np.negative, -3, 3),
    "rad2deg": (np.rad2deg, -3, 3),
    "reciprocal": (np.reciprocal, 0.5, 3),
    "round": (np.rint, -3, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 5),
    "sigmoid": (scipy.special.expit, -3, 3),
    "sign": (np.sign, -3, 3),
    "sin": (np.sin, -3, 3),
    "sinc": (np.sinc, -3, 3),
    "sinh": (np.sinh, -3, 3),
    "sqrt": (np.sqrt, 0.1, 5),
    "square": (np.square, -3, 3),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -3, 3),
    "trunc": (np.trunc, -3, 3),
}
BINARY = {
    "add": np.add,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "div": np.true_divide,
    "float_power": np.float_power,
    "floor_divide": np.floor_divide,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "pow": np.power,
    "remainder": np.remainder,
    "sub": np.subtract,
    "xlogy": scipy.special.xlogy,
}
PREDICATES = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "gcd": np.gcd,
    "lcm": np.lcm,
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "offset": lambda x: torch.cat([x, x])[x.shape[0] :],
    "scalar": lambda x: x[0, 0],
    "empty": lambda x: x[:0],
}
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 1e-2, torch.float16: 1e-3}


def values(low, high, dtype=torch.float64, shape=(3, 4), seed=0):
    """Numbers of an interval, none of them at a kink."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    return torch.tensor(np.where(np.abs(drawn - np.rint(drawn)) < 0.05, drawn + 0.1, drawn)).to(
        dtype
    )


def close(result, expected, dtype):
    """Compare at the precision of a dtype."""
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(result.double().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_number(name, dtype, layout):
    function, low, high = UNARY[name]
    x = LAYOUTS[layout](values(low, high, dtype))
    result = getattr(torch, name)(x)
    assert result.dtype is dtype
    assert result.shape == x.shape
    close(result, function(x.double().numpy()), dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_numbers(name, dtype, layout):
    x, y = (LAYOUTS[layout](values(0.5, 3, dtype, seed=s)) for s in (1, 2))
    result = getattr(torch, name)(x, y)
    close(result, BINARY[name](x.double().numpy(), y.double().numpy()), dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", sorted(BITS | PREDICATES))
def test_integers_and_truth(name, dtype):
    x = torch.tensor([[1, 2, 12], [0, 7, 5]], dtype=dtype)
    y = torch.tensor([3, 2, 8], dtype=dtype)
    expected = (BITS | PREDICATES)[name](x.numpy(), y.numpy())
    np.testing.assert_array_equal(getattr(torch, name)(x, y).numpy(), expected)


def _forms():
    """(name, op) of every public elementwise op of one floating-point tensor that has all forms."""
    for name, op in sorted(NAMESPACES["torch"].items()):
        if name in UNARY and isinstance(op, FormulaOp):
            yield name


@pytest.mark.parametrize("name", list(_forms()))
def test_the_forms_agree(name):
    _, low, high = UNARY[name]
    x = values(low, high)
    expected = getattr(torch, name)(x)
    assert torch.equal(getattr(x, name)(), expected)
    out = torch.empty(0, dtype=torch.float64)
    assert getattr(torch, name)(x, out=out) is out
    assert torch.equal(out, expected)
    written = x.clone()
    assert getattr(written, name + "_")() is written
    assert torch.equal(written, expected)


@pytest.mark.parametrize("name", UNARY)
def test_derivatives_of_one_number(name):
    _, low, high = UNARY[name]
    x = values(low, high, shape=(5,)).requires_grad_()
    assert gradcheck(getattr(torch, name), (x,))
    assert gradgradcheck(getattr(torch, name), (x,))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_derivatives_of_two_numbers(name):
    x, y = values(0.5, 3, shape=(2, 3), seed=3), values(0.6, 3, shape=(3,), seed=4)
    x.requires_grad_(), y.requires_grad_()
    assert gradcheck(getattr(torch, name), (x, y))
    if name not in ("copysign",):
        assert gradgradcheck(getattr(torch, name), (x, y))


ACTIVATIONS = {
    "relu": {},
    "relu6": {},
    "elu": {"alpha": 1.5},
    "selu": {},
    "celu": {"alpha": 1.5},
    "leaky_relu": {"negative_slope": 0.2},
    "silu": {},
    "mish": {},
    "hardtanh": {"min_val": -0.5, "max_val": 2.0},
    "hardsigmoid": {},
    "hardswish": {},
    "threshold": {"threshold": 0.3, "value": -1.0},
    "gelu": {"approximate": "tanh"},
    "logsigmoid": {},
    "softplus": {"beta": 2.0},
    "hardshrink": {"lambd": 0.4},
    "softshrink": {"lambd": 0.4},
    "softsign": {},
    "tanhshrink": {},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_of_activations(name):
    x = values(-2.9, 2.9, shape=(8,)).requires_grad_()

    def function(t):
        return getattr(F, name)(t, **ACTIVATIONS[name])

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n in list(ACTIVATIONS)[:12]])
def test_activations_in_place(name):
    x = values(-3, 3)
    expected = getattr(F, name)(x, **ACTIVATIONS[name])
    written = x.clone()
    assert getattr(F, name)(written, **ACTIVATIONS[name], inplace=True) is written
    assert torch.equal(written, expected)


def test_values_of_activations():
    x = torch.tensor([-4.0, -1.0, 0.0, 0.5, 7.0])
    recorded = {
        "elu": [-0.981684361, -0.632120559, 0.0, 0.5, 7.0],
        "gelu": [-0.000126685, -0.158655254, 0.0, 0.345731231, 7.0],
        "hardswish": [-0.0, -0.333333333, 0.0, 0.291666667, 7.0],
        "mish": [-0.072591741, -0.303401461, 0.0, 0.375245211, 6.99998838],
        "selu": [-1.725898628, -1.111330738, 0.0, 0.525350494, 7.354906911],
        "silu": [-0.07194484, -0.268941421, 0.0, 0.311229666, 6.993622642],
        "softplus": [0.018149928, 0.313261688, 0.693147181, 0.974076984, 7.000911466],
    }
    for name, expected in recorded.items():
        np.testing.assert_allclose(getattr(F, name)(x).numpy(), expected, rtol=1e-6, atol=1e-7)


# meaning at the edges


def test_division_by_mode():
    x, y = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
    assert torch.div(x, y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert torch.div(x, y, rounding_mode="floor").tolist() == [3, -4, -4, 3]
    assert torch.div(x, y).tolist() == [3.5, -3.5, -3.5, 3.5]
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert torch.floor_divide(torch.tensor([1.0, -1.0]), 0.0).tolist() == [math.inf, -math.inf]
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x, 0)
    with pytest.raises(RuntimeError, match="rounding_mode"):
        torch.div(x, y, rounding_mode="up")


def test_powers_of_integers():
    base = torch.tensor([2, 1, -1])
    assert torch.pow(base, torch.tensor([-1, -2, -3])).tolist() == [0, 1, -1]
    assert (base**3).tolist() == [8, 1, -1]
    assert (2**base).tolist() == [4, 2, 0]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        base**-1
    assert (base**-1.0).tolist() == [0.5, 1.0, -1.0]


def test_where_takes_numbers_and_a_condition_alone():
    condition = torch.tensor([[True, False], [False, True]])
    assert torch.where(condition, 1, 2).tolist() == [[1, 2], [2, 1]]
    assert torch.where(condition, 1.0, torch.tensor([5, 6])).dtype is torch.float32
    rows, columns = torch.where(condition)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])
    with pytest.raises(RuntimeError, match="boolean tensor"):
        torch.where(torch.tensor([1, 0]), 1, 2)


def test_masked_fill():
    x, mask = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([True, False])
    filled = x.masked_fill(mask, -math.inf)
    assert filled.tolist() == [-math.inf, 2.0]
    filled[1].backward()
    assert x.grad.tolist() == [0.0, 1.0]
    written = torch.zeros(2)
    assert written.masked_fill_(mask, 3) is written
    assert written.tolist() == [3.0, 0.0]
    with pytest.raises(RuntimeError, match="boolean masks"):
        x.masked_fill(torch.tensor([1, 0]), 0)
    with pytest.raises(RuntimeError, match="0-dimensional value tensor"):
        x.masked_fill(mask, torch.ones(2))


def test_special_values():
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0])
    assert torch.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0).tolist() == [1, 2, 3, 0, 0]
    assert torch.isfinite(x).tolist() == [False, False, False, True, True]
    assert torch.isposinf(x).tolist() == [False, True, False, False, False]
    assert torch.signbit(x[1:]).tolist() == [False, True, False, True]
    assert torch.sign(x).tolist() == [0, 1, -1, 0, 0]
    assert torch.heaviside(x[1:], torch.tensor(0.5)).tolist() == [1, 0, 0.5, 0.5]
    assert torch.clamp(x, -1, 1)[1:].tolist() == [1, -1, 0, 0]
    assert math.isnan(torch.clamp(x, -1, 1)[0].item())
    assert torch.isclose(x, x, equal_nan=True).tolist() == [True] * 5
    assert torch.xlogy(torch.tensor([0.0]), torch.tensor([0.0])).tolist() == [0.0]


def test_rounding_to_decimals():
    x = torch.tensor([1.2345, -1250.0, 0.5, 1.5], dtype=torch.float64)
    assert torch.round(x, decimals=2).tolist() == [1.23, -1250.0, 0.5, 1.5]
    assert torch.round(x, decimals=-2).tolist() == [0.0, -1200.0, 0.0, 0.0]
    assert torch.round(x).tolist() == [1.0, -1250.0, 0.0, 2.0]


def test_frexp_and_ldexp_undo_each_other():
    x = torch.tensor([0.0, 1.0, -3.5, 1024.0])
    mantissa, exponent = torch.frexp(x)
    assert mantissa.tolist() == [0.0, 0.5, -0.875, 0.5]
    assert exponent.tolist() == [0, 1, 2, 11]
    assert exponent.dtype is torch.int32
    assert torch.equal(torch.ldexp(mantissa, exponent), x)


def test_slopes_of_steps_are_zero_and_recorded():
    x = torch.tensor([0.3, -1.2], requires_grad=True)
    for name in ("floor", "ceil", "round", "trunc", "sign"):
        (slope,) = torch.autograd.grad(getattr(torch, name)(x).sum(), x)
        assert slope.tolist() == [0.0, 0.0]


def test_numbers_where_tensors_belong():
    x = torch.tensor([1.0])
    with pytest.raises(TypeError, match="argument 'other' .position 2. must be Tensor, not int"):
        torch.maximum(x, 2)
    with pytest.raises(TypeError, match="argument 'input' .position 1. must be Tensor"):
        torch.eq(2, x)
    assert torch.add(1, 2).item() == 3
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        torch.gcd(x, x)
    with pytest.raises(RuntimeError, match="bool tensors is not supported"):
        torch.tensor([True]) - torch.tensor([True])


# promotion and broadcasting

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
]
DTYPES += [torch.float32, torch.float64]
SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_two_tensors_meet_in_their_common_dtype(a, b):
    x, y = torch.ones(2, dtype=a), torch.ones(2, dtype=b)
    common = torch.promote_types(a, b)
    assert (x * y).dtype is common
    assert torch.true_divide(x, y).dtype is (common if common.is_floating_point else torch.float32)
    assert torch.eq(x, y).dtype is torch.bool
    assert torch.where(torch.tensor([True, False]), x, y).dtype is common


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(DTYPES), st.sampled_from([True, 2, 2.5]))
def test_numbers_raise_only_the_kind(dtype, number):
    x = torch.ones(2, dtype=dtype)
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float32}
    order = [torch.bool, torch.int64, torch.float32]
    own = (
        torch.float32
        if dtype.is_floating_point
        else torch.bool
        if dtype is torch.bool
        else torch.int64
    )
    raised = order.index(kinds[type(number)]) > order.index(own)
    assert (x * number).dtype is (kinds[type(number)] if raised else dtype)


@settings(deadline=None, max_examples=100)
@given(SHAPES, SHAPES, st.integers(0, 9))
def test_broadcasting_follows_numpy(a, b, seed):
    drawn = np.random.default_rng(seed)
    x, y = drawn.normal(size=a), drawn.normal(size=b)
    try:
        expected = x - y
    except ValueError:
        with pytest.raises(RuntimeError, match="must match"):
            torch.tensor(x) - torch.tensor(y)
        return
    t, u = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)
    result = t - u
    np.testing.assert_array_equal(result.detach().numpy(), expected)
    result.sum().backward()
    assert t.grad.shape == t.shape
    np.testing.assert_allclose(u.grad.numpy(), np.full(b, -expected.size / max(u.numel(), 1)))


def test_every_formula_says_what_it_computes():
    silent = [n for n, op in OPS.items() if isinstance(op, FormulaOp) and not op.__doc__]
    assert not silent


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("input", "other", "value"),
    [
        (1 + 1j, 0, 1.21357008344234 + 0.747288621781412j),
        (800 + 1j, 800 + 1j, 800.6931471805599 + 1j),
        (complex(-INF, 0), complex(-INF, 1), complex(-INF, 1)),
        (complex(INF, 0), complex(INF, 1), complex(INF, 0.7853981633974483)),
        (complex(INF, 0), complex(-INF, INF), complex(INF, 0)),
    ],
)
def test_logaddexp_of_complex_numbers(input, other, value):
    a, b = (torch.tensor([z], dtype=torch.complex128) for z in (input, other))
    assert torch.logaddexp(a, b).tolist() == pytest.approx([value])


def test_logaddexp_of_a_complex_nan():
    found = torch.logaddexp(torch.tensor([complex(NAN, 0)]), torch.tensor([1j]))
    assert found.real.isnan().all() and found.imag.isnan().all()


def test_tile_of_a_scalar_no_times():
    assert torch.tile(torch.tensor(3), ()).tolist() == 3
