"""The functions of float32 in vectors: within 2 ulp of the exact value, and right at the edges."""

import numpy as np
import pytest
import scipy.special

from ember.backends.cpu.native import builtin
from ember.kernel.loops import FLAT, Kernel, Operand, kernel_text
from ember.scalar import primitives as p
from ember.scalar.approximations import FUNCTIONS
from ember.scalar.expr import var

EXACT = {
    "exp": np.exp,
    "expm1": np.expm1,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sigmoid": scipy.special.expit,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sin": np.sin,
    "cos": np.cos,
}


def computed(name, x, lanes=16):
    formula = getattr(p, name)(var("x"))
    kernel = Kernel((formula,), (Operand("x", "float"),), ("float",), "float", lanes, FLAT)
    out = np.empty_like(x)
    builtin(kernel_text(kernel))(x, out, np.array([x.size, 1]), np.empty(0, np.float32), 0, x.size)
    return out


def in_ulp(value, exact):
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    return np.abs(value.astype(np.float64) - exact) / unit


def test_every_function_is_checked():
    assert set(EXACT) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lanes", [16, 8, 4])
def test_within_two_ulp_over_the_whole_range(name, lanes):
    step = 10007 if lanes == 16 else 1000003
    x = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
        found = computed(name, x.copy(), lanes)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        np.testing.assert_array_equal(found[np.isinf(rounded)], rounded[np.isinf(rounded)])
        finite = np.isfinite(rounded)
        assert in_ulp(found[finite], exact[finite]).max() <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_ulp_where_values_usually_are(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=20000) * scale for scale in (0.01, 1, 10)])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        finite = np.isfinite(exact)
        assert in_ulp(computed(name, x)[finite], exact[finite]).max() <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(name):
    tiny = np.float32(1e-45)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1, -1], np.float32)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64)).astype(np.float32)
    found = computed(name, x)
    np.testing.assert_allclose(found, exact, rtol=3e-7, atol=2e-45)
    zero = (x == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_beyond_the_reduction_are_the_librarys(name):
    x = np.float32([1e4, 29999.9, 30001, 1e5, 1e10, 3e38, 0.5] * 5)
    exact = EXACT[name](x.astype(np.float64))
    assert in_ulp(computed(name, x), exact).max() <= 2
