"""Pooling against loops over windows: values, places, ties, NaN, padding, and the gradients."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import adaptive_pooling, pooling
from ember.backends.cpu.adaptive_pooling import (
    adaptive_average_pool,
    adaptive_average_pool_backward,
    adaptive_max_pool,
)
from ember.backends.cpu.pooling import (
    average_pool,
    average_pool_backward,
    max_pool,
    max_pool_backward,
)

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=40, derandomize=True)
NAN, INF = np.nan, np.inf


def output_sizes(sizes, kernel, stride, padding, dilation, ceil):
    """The number of windows, PyTorch's rule: with ceil, the last starts in the input or left of
    it."""
    result = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        reach = n + 2 * p - d * (k - 1) - 1
        count = -(-reach // s) + 1 if ceil else reach // s + 1
        result.append(count - 1 if ceil and (count - 1) * s >= n + p else count)
    return tuple(result)


def window(out, sizes, kernel, stride, padding, dilation):
    """The pixels of a window, in order."""
    dims = zip(out, kernel, stride, padding, dilation)
    lines = [[o * s - p + t * d for t in range(k)] for o, k, s, p, d in dims]
    for place in product(*lines):
        if all(0 <= at < n for at, n in zip(place, sizes)):
            yield place


def largest(plane, places):
    """The first largest value, or the last NaN, and its flat index."""
    best = None
    for place in places:
        value = plane[place]
        if best is None or value > plane[best] or np.isnan(value):
            best = place
    return plane[best], np.ravel_multi_index(best, plane.shape)


@st.composite
def windows(draw, dilated=True):
    dims = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    kernel, stride = each(1, 3), each(1, 3)
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    dilation = each(1, 2) if dilated else (1,) * dims
    spans = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(kernel, dilation, padding)]
    sizes = tuple(span + draw(st.integers(0, 4)) for span in spans)
    count = output_sizes(sizes, kernel, stride, padding, dilation, draw(st.booleans()))
    return sizes, kernel, stride, padding, dilation, count


@SETTINGS
@given(windows(), st.sampled_from(["f4", "i8", "u1"]), st.integers(0, 2), st.integers(0, 3))
def test_max_pool(relaid, geometry, dtype, kind, layout):
    sizes, *rest, count = geometry
    rng = np.random.default_rng(kind)
    x = rng.integers(0, 4, (2, 2, *sizes)).astype(dtype)
    if dtype == "f4" and kind:
        x[rng.random(x.shape) < 0.3] = [0, -INF, NAN][kind]
    if not all(list(window(out, sizes, *rest)) for out in np.ndindex(*count)):
        return  # a window between pixels: PyTorch has no answer either
    values, indices = max_pool(relaid(x, layout), *rest, count)
    assert values.dtype == x.dtype
    assert indices.dtype == np.int64
    for lead in np.ndindex(2, 2):
        for out in np.ndindex(*count):
            value, index = largest(x[lead], window(out, sizes, *rest))
            np.testing.assert_array_equal(values[lead + out], value)
            assert indices[lead + out] == index


@SETTINGS
@given(windows())
def test_max_pool_backward_adds_up(geometry):
    sizes, count = geometry[0], geometry[-1]
    rng = np.random.default_rng(0)
    indices = rng.integers(0, prod(sizes), (2, 2, *count))
    g = rng.standard_normal(indices.shape)
    expected = np.zeros((2, 2, prod(sizes)))
    for place in np.ndindex(*indices.shape):
        expected[(*place[:2], indices[place])] += g[place]
    found = max_pool_backward(g, indices, (2, 2, *sizes), len(sizes))
    np.testing.assert_allclose(found, expected.reshape(2, 2, *sizes))


@SETTINGS
@given(windows(dilated=False), st.booleans(), st.sampled_from([None, 3, -2]), st.integers(0, 3))
def test_average_pool(relaid, geometry, with_padding, divisor, layout):
    sizes, kernel, stride, padding, ones, count = geometry
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 2, *sizes))
    g = rng.standard_normal((2, 2, *count))
    expected, slopes = np.zeros(g.shape), np.zeros(x.shape)
    for out in np.ndindex(*count):
        places = list(window(out, sizes, kernel, stride, padding, ones))
        dims = zip(out, sizes, kernel, stride, padding)
        padded = prod(min(o * s - p + k, n + p) - (o * s - p) for o, n, k, s, p in dims)
        over = divisor or (padded if with_padding else len(places))
        for place in places:
            expected[(..., *out)] += x[(..., *place)] / over
            slopes[(..., *place)] += g[(..., *out)] / over
    options = (with_padding, divisor)
    found = average_pool(relaid(x, layout), kernel, stride, padding, count, *options)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    back = average_pool_backward(relaid(g, layout), x.shape, kernel, stride, padding, *options)
    np.testing.assert_allclose(back, slopes, atol=1e-12)


def test_integers_are_divided_towards_zero():
    x = np.arange(-7, 9).reshape(1, 1, 4, 4)
    # Recorded from PyTorch: avg_pool2d of int64.
    found = average_pool(x, (2, 2), (2, 2), (0, 0), (2, 2), True, None)
    assert found.tolist() == [[[[-4, -2], [3, 5]]]]


def test_recorded_places():
    # Recorded from PyTorch: the last NaN, the first of equals, the first pixel of a window of -inf.
    x = np.array([[1, NAN, 3, NAN], [NAN, 2, 5, 5], [-INF, -INF, 7, 7], [-INF, -INF, 7, 7]])
    values, indices = max_pool(x[None, None], (2, 2), (2, 2), (0, 0), (1, 1), (2, 2))
    np.testing.assert_array_equal(values[0, 0], [[NAN, NAN], [-INF, 7]])
    assert indices[0, 0].tolist() == [[4, 3], [8, 10]]
    low = np.full((1, 1, 4, 4), -INF)
    indices = max_pool(low, (2, 2), (1, 1), (1, 1), (2, 2), (4, 4))[1]
    assert indices[0, 0].tolist() == [[5, 4, 5, 6], [1, 0, 1, 2], [5, 4, 5, 6], [9, 8, 9, 10]]


@SETTINGS
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_adaptive(relaid, dims, layout):
    sizes, count = tuple(s for s, _ in dims), tuple(o for _, o in dims)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (2, 2, *sizes)).astype(np.float64)
    x[rng.random(x.shape) < 0.1] = NAN
    clean = np.nan_to_num(x)
    values, indices = adaptive_max_pool(relaid(x, layout), count)
    means = adaptive_average_pool(relaid(clean, layout), count)
    g = rng.standard_normal(means.shape)
    slopes = np.zeros(x.shape)
    for out in np.ndindex(*count):
        lines = [range(o * s // n, -(-(o + 1) * s // n)) for o, s, n in zip(out, sizes, count)]
        places = list(product(*lines))
        for lead in np.ndindex(2, 2):
            value, index = largest(x[lead], places)
            np.testing.assert_array_equal(values[lead + out], value)
            assert indices[lead + out] == index
            mean = sum(clean[lead + place] for place in places) / len(places)
            np.testing.assert_allclose(means[lead + out], mean)
        for place in places:
            slopes[(..., *place)] += g[(..., *out)] / len(places)
    back = adaptive_average_pool_backward(relaid(g, layout), x.shape)
    np.testing.assert_allclose(back, slopes, atol=1e-12)


def test_infinity_stays_in_its_bin():
    x = np.ones((1, 1, 1, 10), np.float32)
    x[..., 0] = INF
    assert adaptive_average_pool(x, (1, 4)).tolist() == [[[[INF, 1, 1, 1]]]]


@pytest.mark.parametrize("limit", [1, 300])
def test_blocks_join(monkeypatch, limit):
    x = np.random.default_rng(0).standard_normal((3, 4, 9, 9))
    whole = max_pool(x, (3, 3), (2, 2), (1, 1), (1, 1), (5, 5)), adaptive_max_pool(x, (4, 4))
    monkeypatch.setattr(pooling, "BLOCK_BYTES", limit)
    monkeypatch.setattr(adaptive_pooling, "BIN_COST", 0)
    cut = max_pool(x, (3, 3), (2, 2), (1, 1), (1, 1), (5, 5)), adaptive_max_pool(x, (4, 4))
    for pair, expected in zip(cut, whole):
        np.testing.assert_array_equal(pair[0], expected[0])
        np.testing.assert_array_equal(pair[1], expected[1])


def test_nothing():
    x = np.zeros((0, 2, 4, 4))
    assert max_pool(x, (2, 2), (2, 2), (0, 0), (1, 1), (2, 2))[1].shape == (0, 2, 2, 2)
    assert average_pool(x, (2, 2), (2, 2), (0, 0), (2, 2), True, None).shape == (0, 2, 2, 2)
    assert adaptive_average_pool(x, (3, 3)).shape == (0, 2, 3, 3)
    assert adaptive_average_pool_backward(np.zeros((0, 2, 3, 3)), x.shape).shape == x.shape


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    names = ["max_pool{}d", "avg_pool{}d", "adaptive_avg_pool{}d", "adaptive_max_pool{}d"]
    rng = np.random.default_rng(5)
    for number in range(45):
        dims = number % 3 + 1
        maximum, mean, fitted, fitted_maximum = (
            getattr(torch.nn.functional, name.format(dims)) for name in names
        )
        kernel = tuple(rng.integers(1, 4, dims).tolist())
        stride = tuple(rng.integers(1, 4, dims).tolist())
        padding = tuple(k // 2 for k in kernel)
        sizes = tuple(rng.integers(4, 10, dims).tolist())
        ceil = bool(number % 2)
        x = rng.integers(-3, 4, (2, 3, *sizes)).astype(np.float32)
        t = torch.from_numpy(x).requires_grad_()
        y, places = maximum(t, kernel, stride, padding, ceil_mode=ceil, return_indices=True)
        count = tuple(y.shape[2:])
        values, indices = max_pool(x, kernel, stride, padding, (1,) * dims, count)
        np.testing.assert_array_equal(values, y.detach().numpy())
        np.testing.assert_array_equal(indices, places.numpy())
        y.sum().backward()
        back = max_pool_backward(np.ones_like(values), indices, x.shape, dims)
        np.testing.assert_array_equal(back, t.grad.numpy())
        y = mean(t, kernel, stride, padding, ceil, not ceil)
        found = average_pool(x, kernel, stride, padding, tuple(y.shape[2:]), not ceil, None)
        np.testing.assert_allclose(found, y.detach().numpy(), rtol=1e-5, atol=1e-6)
        count = tuple(rng.integers(1, 10, dims).tolist())
        found = adaptive_average_pool(x, count)
        np.testing.assert_allclose(found, fitted(t, count).detach().numpy(), rtol=1e-5, atol=1e-6)
        pair = fitted_maximum(t, count, return_indices=True)
        for found, expected in zip(adaptive_max_pool(x, count), pair):
            np.testing.assert_array_equal(found, expected.detach().numpy())
