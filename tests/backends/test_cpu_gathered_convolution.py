"""Convolutions by gathered panels against the products of unfolded input, in double precision."""

import itertools

import numpy as np
import pytest

from ember.backends.cpu import convolution as unfolded
from ember.backends.cpu import gathered_convolution as gathered

CASES = [
    (kernel, stride, dilation, padding, size)
    for kernel, stride, dilation, padding, size in itertools.product(
        ((3, 3), (1, 1), (5, 3), (7, 7), (2, 4)),
        ((1, 1), (2, 2), (3, 3), (2, 1)),
        (1, 2),
        ((0, 0), (1, 1), (3, 2)),
        ((9, 14), (17, 17)),
    )
    if dilation * (max(kernel) - 1) < min(size) + 2 * min(padding)
]


@pytest.mark.parametrize("own", [1, 10_000])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding", "size"), CASES)
def test_three_directions(monkeypatch, kernel, stride, dilation, padding, size, own):
    monkeypatch.setattr(gathered, "OWN_PIXELS", own)
    generator = np.random.default_rng(0)
    channels, made = 5, 19
    x = generator.normal(size=(3, channels, *size)).astype(np.float32)
    w = generator.normal(size=(made, channels, *kernel)).astype(np.float32)
    settings = (stride, padding, (dilation, dilation))
    sizes = tuple(
        (n + 2 * p - dilation * (k - 1) - 1) // s + 1
        for n, k, s, p in zip(size, kernel, stride, padding, strict=True)
    )
    g = generator.normal(size=(3, made, *sizes)).astype(np.float32)
    wide = [a.astype(np.float64) for a in (x, w, g)]
    pairs = (
        (
            gathered.convolution(x, w, sizes, settings),
            unfolded.convolution(wide[0], wide[1], *settings, 1),
        ),
        (
            gathered.input_gradient(g, w, x.shape, settings),
            unfolded.convolution_input(wide[2], wide[1], x.shape, *settings, 1),
        ),
        (
            gathered.weight_gradient(g, x, w.shape, settings),
            unfolded.convolution_weight(wide[2], wide[0], w.shape, *settings, 1),
        ),
    )
    for mine, exact in pairs:
        assert mine.shape == exact.shape
        assert mine.flags.c_contiguous
        np.testing.assert_allclose(mine, exact, atol=5e-6 * np.abs(exact).max(), rtol=0)


def test_operands_of_any_strides():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, 10, 10, 18)).astype(np.float32).transpose(0, 3, 1, 2)
    w = generator.normal(size=(3, 3, 18, 20)).astype(np.float32).transpose(3, 2, 0, 1)
    settings = ((2, 2), (1, 1), (1, 1))
    g = generator.normal(size=(2, 5, 5, 20)).astype(np.float32).transpose(0, 3, 1, 2)
    plain = [np.ascontiguousarray(a) for a in (x, w, g)]
    assert np.array_equal(
        gathered.convolution(x, w, (5, 5), settings),
        gathered.convolution(*plain[:2], (5, 5), settings),
    )
    assert np.array_equal(
        gathered.input_gradient(g, w, x.shape, settings),
        gathered.input_gradient(plain[2], plain[1], x.shape, settings),
    )
    assert np.array_equal(
        gathered.weight_gradient(g, x, w.shape, settings),
        gathered.weight_gradient(plain[2], plain[0], w.shape, settings),
    )
