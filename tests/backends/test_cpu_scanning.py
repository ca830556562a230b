"""Running results along a dim, against loops; NaN, places of ties, precision, no elements."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import scanning
from ember.backends.cpu.scanning import cummax, cummin, cumprod, cumsum, logcumsumexp

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=60, derandomize=True)
NAN, INF = math.nan, math.inf
STEPS = {
    cumsum: lambda a, b: a + b,
    cumprod: lambda a, b: a * b,
    logcumsumexp: lambda a, b: np.logaddexp(a, b),
}


@SETTINGS
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["f4", "f8", "i8", "u1", "c16"]),
    st.sampled_from([1, 128]),
    st.integers(0, 3),
)
def test_running_results(relaid, sizes, dtype, least, layout):
    rng = np.random.default_rng(len(sizes))
    x = relaid(rng.integers(0, 4, sizes).astype(dtype), layout)
    kept, scanning.LEAST_SLICE = scanning.LEAST_SLICE, least
    try:
        for function, step in STEPS.items():
            if function is logcumsumexp and dtype not in ("f4", "f8"):
                continue
            for dim in range(-x.ndim, x.ndim):
                found = np.moveaxis(function(x, dim), dim, 0)
                rows = np.moveaxis(x, dim, 0)
                state = rows[0].astype(np.float64) if dtype == "f4" else rows[0]
                for place, row in enumerate(rows):
                    state = step(state, row) if place else state
                    np.testing.assert_allclose(found[place], state, rtol=1e-6)
                assert found.dtype == x.dtype
    finally:
        scanning.LEAST_SLICE = kept


@SETTINGS
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, NAN, -INF]), min_size=1, max_size=12))
def test_running_extremes(values):
    for function, better in ((cummax, lambda a, b: a >= b), (cummin, lambda a, b: a <= b)):
        best, expected = 0, []
        for place, value in enumerate(values):
            # The last of equals stays; after a NaN only another NaN counts.
            if math.isnan(value) or (not math.isnan(values[best]) and better(value, values[best])):
                best = place
            expected.append(best)
        found, places = function(np.array([values, values], "f4"), 1)
        assert places.tolist() == [expected] * 2
        np.testing.assert_array_equal(found[0], np.array(values, "f4")[expected])
        table = np.repeat(np.array(values)[:, None], 200, 1)  # wide slices, one step each
        assert function(table, 0)[1][:, 7].tolist() == expected


def test_single_precision_is_accumulated_in_double():
    # Recorded from PyTorch; added up in float32 it is 100958.34.
    assert cumsum(np.full(10**6, 0.1, "f4"), 0)[-1] == 100000.0


def test_recorded():
    found = logcumsumexp(np.array([-INF, -INF, 1.0, INF, 2.0]), 0)
    np.testing.assert_array_equal(found, [-INF, -INF, 1, INF, INF])
    found = logcumsumexp(np.array([1.0, NAN, 2.0]), 0)
    np.testing.assert_array_equal(found, [1, NAN, NAN])
    found = logcumsumexp(np.array([1 + 1j, 2 - 3j]), 0)
    np.testing.assert_allclose(found, [1 + 1j, 1.7880 - 3.3513j], atol=1e-4)
    assert cumsum(np.array([100, 100], np.int8), 0).tolist() == [100, -56]
    values, places = cummax(np.array([False, True, False]), 0)
    assert (values.tolist(), places.tolist()) == ([False, True, True], [0, 1, 1])


def test_nothing_and_numbers():
    assert cumsum(np.array(3.0), 0) == 3
    assert cummax(np.array(3.0), 0)[1].shape == ()
    assert cummin(np.zeros((0, 2)), 0)[1].shape == (0, 2)
    assert logcumsumexp(np.zeros((2, 0)), 1).shape == (2, 0)


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    for number in range(20):
        x = rng.standard_normal((3, 17, 4)).astype(np.float32)
        if number % 2:
            x[rng.random(x.shape) < 0.1] = [NAN, INF, -INF][number % 3]
        t, dim = torch.from_numpy(x), number % 3
        for name in ("cumsum", "cumprod", "logcumsumexp"):
            found = getattr(scanning, name)(x, dim)
            expected = getattr(torch, name)(t, dim).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        for name in ("cummax", "cummin"):
            for found, expected in zip(
                getattr(scanning, name)(x, dim), getattr(torch, name)(t, dim)
            ):
                np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("shape", [(20000,), (100, 333), (9000, 2), (3, 5, 1024)])
@pytest.mark.parametrize(("name", "ufunc"), [("cumsum", np.add), ("cumprod", np.multiply)])
def test_compiled_scans_of_rows(shape, name, ufunc):
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    if name == "cumprod":
        x = 1 + x / 100
    exact = ufunc.accumulate(x.astype(np.float64), -1)
    np.testing.assert_allclose(getattr(scanning, name)(x, -1), exact, rtol=2e-7)


def test_infinities_in_compiled_scans():
    x = np.ones(20000, np.float32)
    x[100], x[200] = np.inf, -np.inf
    found = scanning.cumsum(x, 0)
    assert found[99] == 100 and np.isinf(found[100:200]).all() and np.isnan(found[200:]).all()
