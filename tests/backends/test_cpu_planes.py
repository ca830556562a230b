"""Depthwise convolutions in vectors against the sum over taps in double precision."""

import itertools

import numpy as np
import pytest

from ember.backends.cpu import depthwise as taps
from ember.backends.cpu import planes

CASES = [
    (kernel, stride, dilation, padding, size)
    for kernel, stride, dilation, padding, size in itertools.product(
        ((3, 3), (1, 2), (5, 3), (7, 7), (4,)), (1, 2), (1, 2), (0, 1, 3), (14, 17, 40)
    )
    if dilation * (max(kernel) - 1) < size + 2 * padding
]


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(planes, "LARGE", 0)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding", "size"), CASES)
@pytest.mark.parametrize("times", [1, 2])
def test_three_directions(kernel, stride, dilation, padding, size, times):
    generator = np.random.default_rng(0)
    ndim = len(kernel)
    x = generator.normal(size=(2, 3, *(size, size + 3)[:ndim])).astype(np.float32)
    w = generator.normal(size=(3 * times, 1, *kernel)).astype(np.float32)
    settings = [(n,) * ndim for n in (stride, padding, dilation)]
    sizes = tuple(
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(x.shape[2:], kernel, strict=True)
    )
    g = generator.normal(size=(2, 3 * times, *sizes)).astype(np.float32)
    assert planes.fits(x, kernel, settings[0])
    wide = [a.astype(np.float64) for a in (x, w, g)]
    found = (
        planes.depthwise(x, w, *settings, sizes),
        planes.depthwise_input(g, w, x.shape, *settings),
        planes.depthwise_weight(g, x, w.shape, *settings),
    )
    exact = (
        taps.depthwise(wide[0], wide[1], *settings, sizes),
        taps.depthwise_input(wide[2], wide[1], x.shape, *settings),
        taps.depthwise_weight(wide[2], wide[0], w.shape, *settings),
    )
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, atol=3e-6 * np.abs(other).max(), rtol=0)


def test_what_lies_behind_a_row_is_not_used():
    x = np.ones((1, 2, 5, 21), np.float32)
    x[0, 1] = np.nan
    w = np.ones((2, 1, 3, 3), np.float32)
    found = planes.depthwise(x, w, (1, 1), (0, 0), (1, 1), (3, 19))
    assert (found[0, 0] == 9).all() and np.isnan(found[0, 1]).all()
    slope = planes.depthwise_weight(np.ones_like(found), x, w.shape, (1, 1), (0, 0), (1, 1))
    assert (slope[0] == 57).all() and np.isnan(slope[1]).all()
