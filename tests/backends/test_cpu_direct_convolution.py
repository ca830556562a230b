"""Convolutions by overlapping rows against the products of unfolded input, in double precision."""

import itertools

import numpy as np
import pytest

from ember.backends.cpu import convolution as unfolded
from ember.backends.cpu import direct_convolution as direct

KERNELS = ((3, 3), (1, 1), (5, 3), (7, 7), (2, 4))
STRIDES = ((1, 1), (2, 2), (3, 3), (2, 1))
CASES = [
    (kernel, stride, dilation, padding, size)
    for kernel, stride, dilation, padding, size in itertools.product(
        KERNELS, STRIDES, (1, 2), ((0, 0), (1, 1), (3, 2)), ((9, 14), (17, 17))
    )
    if dilation * (max(kernel) - 1) < min(size) + 2 * min(padding)
]


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(direct, "LEAST_WORK", 0)
    monkeypatch.setattr(direct, "MOST_WASTE", 100)


def example(kernel, stride, dilation, padding, size, made, channels):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, channels, *size)).astype(np.float32)
    w = generator.normal(size=(made, channels, *kernel)).astype(np.float32)
    settings = (stride, padding, (dilation, dilation))
    sizes = tuple(
        (n + 2 * p - dilation * (k - 1) - 1) // s + 1
        for n, k, s, p in zip(size, kernel, stride, padding, strict=True)
    )
    g = generator.normal(size=(2, made, *sizes)).astype(np.float32)
    return x, w, g, settings, sizes


def assert_near(mine, exact):
    assert mine.shape == exact.shape
    np.testing.assert_allclose(mine, exact, atol=5e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding", "size"), CASES)
@pytest.mark.parametrize(("made", "channels"), [(5, 1), (8, 3), (19, 5)])
def test_three_directions(kernel, stride, dilation, padding, size, made, channels):
    given = (kernel, stride, dilation, padding, size, made, channels)
    x, w, g, settings, sizes = example(*given)
    wide = [a.astype(np.float64) for a in (x, w, g)]
    slope = direct.input_gradient(g, w, x.shape, settings)
    assert_near(slope, unfolded.convolution_input(wide[2], wide[1], x.shape, *settings, 1))
    if direct.fits(x, made, kernel, sizes, settings):
        found = direct.convolution(x, w, settings, sizes)
        assert_near(found, unfolded.convolution(wide[0], wide[1], *settings, 1))
        slope = direct.weight_gradient(g, x, w.shape, settings)
        assert_near(slope, unfolded.convolution_weight(wide[2], wide[0], w.shape, *settings, 1))


def test_many_channels_and_images():
    x, w, g, settings, sizes = example((3, 3), (1, 1), 1, (1, 1), (20, 30), 33, 40)
    assert direct.fits(x, 33, (3, 3), sizes, settings)
    wide = [a.astype(np.float64) for a in (x, w, g)]
    exact = unfolded.convolution(wide[0], wide[1], *settings, 1)
    assert_near(unfolded.convolution(x, w, *settings, 1), exact)
    x, g = np.concatenate([x] * 20), np.concatenate([g] * 20)
    exact = unfolded.convolution_weight(wide[2], wide[0], w.shape, *settings, 1) * 20
    assert_near(unfolded.convolution_weight(g, x, w.shape, *settings, 1), exact)


def test_a_channel_of_infinities_stays_in_its_image():
    x, w, _, settings, sizes = example((3, 3), (1, 1), 1, (1, 1), (9, 14), 8, 3)
    x[1] = np.inf
    found = direct.convolution(x, np.abs(w), settings, sizes)
    assert np.isfinite(found[0]).all() and np.isinf(found[1]).all()
