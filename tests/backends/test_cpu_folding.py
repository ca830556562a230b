"""Gradients of images by convolutions with strides against double precision, whose kernels are
others."""

import itertools

import numpy as np
import pytest

from ember.backends.cpu import convolution as unfolded
from ember.backends.cpu import folding

CASES = [
    (kernel, stride, dilation, padding, size)
    for kernel, stride, dilation, padding, size in itertools.product(
        ((3, 3), (1, 1), (5, 3), (7, 7), (2, 4)),
        ((2, 2), (3, 2), (2, 1), (1, 2)),
        (1, 2, 3),
        ((0, 0), (1, 1), (3, 2)),
        ((9, 14), (17, 37), (34, 33)),
    )
    if dilation * (max(kernel) - 1) < min(size) + 2 * min(padding)
]


def made(generator, *shape):
    return generator.normal(size=shape).astype(np.float32)


def given(images, channels, filters, kernel, settings, size):
    """g, w and the shape of the images."""
    generator = np.random.default_rng(0)
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, *settings, strict=True)
    ]
    g = made(generator, images, filters, *sizes)
    return g, made(generator, filters, channels, *kernel), (images, channels, *size)


def check(mine, g, w, shape, settings):
    exact = unfolded.convolution_input(
        g.astype(np.float64), w.astype(np.float64), shape, *settings, 1
    )
    assert mine.shape == exact.shape
    assert mine.flags.c_contiguous
    np.testing.assert_allclose(mine, exact, atol=5e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding", "size"), CASES)
def test_shapes(monkeypatch, kernel, stride, dilation, padding, size):
    settings = (stride, padding, (dilation, dilation))
    g, w, shape = given(2, 5, 7, kernel, settings, size)
    check(folding.input_gradient(g, w, shape, settings), g, w, shape, settings)
    monkeypatch.setattr(folding, "OWN_PIXELS", 1)
    monkeypatch.setattr(folding, "BLOCK", 2 * w[0, 0].size * g[0, 0].size)
    check(folding.input_gradient(g, w, shape, settings), g, w, shape, settings)


@pytest.mark.parametrize("channels", [16, 33, 64])
@pytest.mark.parametrize("size", [(8, 8), (32, 30)])
def test_many_channels(channels, size):
    settings = ((2, 2), (1, 1), (1, 1))
    g, w, shape = given(3, channels, 65, (3, 3), settings, size)
    check(unfolded.convolution_input(g, w, shape, *settings, 1), g, w, shape, settings)


def test_operands_of_any_strides():
    settings = ((2, 2), (1, 1), (1, 1))
    g, w, shape = given(2, 18, 20, (3, 3), settings, (10, 30))
    plain = folding.input_gradient(g, w, shape, settings)
    turned = [np.asfortranarray(a) for a in (g, w)]
    assert np.array_equal(folding.input_gradient(*turned, shape, settings), plain)


def test_what_no_filter_reads_is_zero():
    settings = ((2, 2), (0, 0), (1, 1))
    g, w, shape = given(1, 3, 4, (1, 1), settings, (6, 40))
    found = folding.input_gradient(g, w, shape, settings)
    assert not found[:, :, 1::2].any()
    assert not found[:, :, :, 1::2].any()
    assert found[:, :, ::2, ::2].all()


def test_which_are_computed_here():
    assert folding.fits((3, 3), (2, 2))
    assert folding.fits((3, 3), (3, 1))
    assert not folding.fits((3, 3), (1, 1))
    assert not folding.fits((3, 3), (1, 3))
    assert not folding.fits((3,), (2,))
