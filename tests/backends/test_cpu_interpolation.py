"""Resampling against its definition, pixel by pixel, and the adjoint against the forward."""

from itertools import product
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import interpolation
from ember.backends.cpu.interpolation import interpolate, interpolate_backward

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=50, derandomize=True)
MODES = ["nearest", "nearest-exact", "linear", "bicubic"]
NAMES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def cubic(distance, slope=-0.75):
    d = abs(distance)
    if d <= 1:
        return (slope + 2) * d**3 - (slope + 3) * d**2 + 1
    return slope * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def taps(place, size, count, mode, align_corners):
    """(source pixel, weight) of one result pixel of one dim."""
    if mode == "nearest":
        return [(min(place * size // count, size - 1), 1.0)]
    if mode == "nearest-exact":
        return [(min((2 * place + 1) * size // (2 * count), size - 1), 1.0)]
    if align_corners:
        source = place * (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        source = (place + 0.5) * size / count - 0.5
    if mode == "linear":
        source = max(source, 0.0)
        low = min(floor(source), size - 1)
        share = min(source - low, 1.0)
        return [(low, 1 - share), (min(low + 1, size - 1), share)]
    low = floor(source)
    near = range(low - 1, low + 3)
    return [(min(max(at, 0), size - 1), cubic(source - at)) for at in near]


def by_definition(x, count, mode, align_corners):
    sizes = x.shape[2:]
    y = np.zeros((*x.shape[:2], *count))
    for out in np.ndindex(*count):
        dims = zip(out, sizes, count)
        lines = [taps(o, s, n, mode, align_corners) for o, s, n in dims]
        for chosen in product(*lines):
            place, weights = zip(*chosen)
            y[(..., *out)] += x[(..., *place)] * np.prod(weights)
    return y


@st.composite
def resamplings(draw):
    mode = draw(st.sampled_from(MODES))
    dims = 2 if mode == "bicubic" else draw(st.integers(1, 3))
    sizes = tuple(draw(st.integers(1, 7)) for _ in range(dims))
    count = tuple(draw(st.integers(1, 12)) for _ in range(dims))
    return mode, sizes, count, mode in ("linear", "bicubic") and draw(st.booleans())


@SETTINGS
@given(resamplings(), st.sampled_from([0, 64]), st.integers(0, 3))
def test_by_definition(relaid, case, cost, layout):
    mode, sizes, count, align_corners = case
    name = NAMES[len(sizes)] if mode == "linear" else mode
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, *sizes))
    g = rng.standard_normal((2, 3, *count))
    kept = interpolation.PRODUCT_COST
    interpolation.PRODUCT_COST = cost  # both ways of the last dim
    try:
        y = interpolate(relaid(x, layout), count, name, align_corners, None)
        dx = interpolate_backward(relaid(g, layout), x.shape, name, align_corners, None)
    finally:
        interpolation.PRODUCT_COST = kept
    np.testing.assert_allclose(y, by_definition(x, count, mode, align_corners), atol=1e-9)
    # The adjoint: <g, A·x> = <Aᵀ·g, x> for all x, here for every unit of one image.
    for place in np.ndindex(*sizes):
        unit = np.zeros((1, 1, *sizes))
        unit[(0, 0, *place)] = 1
        column = by_definition(unit, count, mode, align_corners)
        expected = (g * column).sum(tuple(range(2, g.ndim)))
        np.testing.assert_allclose(dx[(..., *place)], expected, atol=1e-9)


def test_recorded():
    # Recorded from PyTorch: interpolate(arange(4.), scale_factor=…) in one dim.
    x = np.arange(4.0, dtype=np.float32).reshape(1, 1, 4)
    linear = interpolate(x, (6,), "linear", False, (1.5,))[0, 0]
    np.testing.assert_allclose(linear, [0, 0.5, 1.1666667, 1.8333334, 2.5, 3], rtol=1e-6)
    assert interpolate(x, (6,), "nearest", False, (1.7,))[0, 0].tolist() == [0, 0, 1, 1, 2, 2]
    image = np.arange(4.0).reshape(1, 1, 2, 2)
    smooth = interpolate(image, (3, 3), "bicubic", True, None)[0, 0]
    np.testing.assert_allclose(smooth, [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]], atol=1e-12)


def test_antialias_is_a_mean_with_a_triangle():
    # Half the size: weights 1, 3, 3, 1 over 8, cut and scaled to sum 1 at the ends.
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).reshape(1, 1, 1, 6)
    y = interpolate(x, (1, 3), "bilinear", False, None, True)[0, 0, 0]
    ends = (3 * 1 + 3 * 2 + 4) / 7, (8 + 3 * 16 + 3 * 32) / 7
    np.testing.assert_allclose(y, [ends[0], (2 + 3 * 4 + 3 * 8 + 16) / 8, ends[1]], rtol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_special_values_stay_where_they_are_read(mode):
    x = np.ones((1, 1, 6, 20), np.float32)
    x[..., 2, 3] = np.inf
    y = interpolate(x, (6, 40), mode, False, None)
    reach = 1 if mode == "bilinear" else 2
    spoiled = np.flatnonzero(~np.isfinite(y[0, 0, 2]))
    assert spoiled.min() >= 2 * (3 - reach)
    assert spoiled.max() <= 2 * (3 + reach) + 1
    g = np.ones((1, 1, 6, 40), np.float32)
    g[..., 0] = np.nan
    dx = interpolate_backward(g, x.shape, mode, False, None)
    assert np.isfinite(dx[..., 3:]).all()


def test_bytes_are_rounded():
    x = np.array([0, 255], np.uint8).reshape(1, 1, 1, 2)
    y = interpolate(x, (1, 4), "bilinear", False, None)
    assert y.dtype == np.uint8
    assert y.ravel().tolist() == [0, 64, 191, 255]


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    modes = ["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"]
    dims_of = {"linear": 1, "trilinear": 3, "bilinear": 2, "bicubic": 2}
    for number in range(72):
        mode = modes[number % 6]
        dims = dims_of.get(mode, 2)
        smooth = mode in ("bilinear", "bicubic") and number % 4 == 0
        sizes = tuple(rng.integers(2, 9, dims).tolist())
        factors = tuple((rng.random(dims) * 3 + 0.6).tolist())
        options = {} if mode.startswith("nearest") else {"align_corners": bool(number // 6 % 2)}
        x = rng.standard_normal((2, 3, *sizes))
        t = torch.from_numpy(x).requires_grad_()
        y = torch.nn.functional.interpolate(
            t, scale_factor=factors, mode=mode, **options, **({"antialias": True} if smooth else {})
        )
        count = tuple(y.shape[2:])
        if smooth and (count[-1] == 1 or any(a == b for a, b in zip(count, sizes))):
            continue  # PyTorch's forward and backward disagree there
        rest = (mode, options.get("align_corners", False), factors, smooth)
        np.testing.assert_allclose(interpolate(x, count, *rest), y.detach().numpy(), atol=1e-9)
        g = rng.standard_normal(y.shape)
        y.backward(torch.from_numpy(g))
        found = interpolate_backward(g, x.shape, *rest)
        np.testing.assert_allclose(found, t.grad.numpy(), atol=1e-9)
