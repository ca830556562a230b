"""Winograd's convolutions against direct sums in double precision, for every size of the tails."""

import numpy as np
import pytest

from ember.backends import cpu
from ember.backends.cpu import convolution as chosen
from ember.backends.cpu import gathered_convolution as direct
from ember.backends.cpu import winograd

SIZES = range(1, 21)


def example(high, wide, channels, made, padding, images=2):
    generator = np.random.default_rng(high * 100 + wide)
    x = generator.normal(size=(images, channels, high, wide)).astype(np.float32)
    w = generator.normal(size=(made, channels, 3, 3)).astype(np.float32)
    sizes = (high + 2 * padding[0] - 2, wide + 2 * padding[1] - 2)
    g = generator.normal(size=(images, made, *sizes)).astype(np.float32) if min(sizes) > 0 else None
    return x, w, g, sizes


def exact(x, w, g, padding):
    """The result and both gradients, in double precision."""
    x, w, g = (a.astype(np.float64) for a in (x, w, g))
    settings = ((1, 1), padding, (1, 1), 1)
    return (
        chosen.convolution(x, w, *settings),
        chosen.convolution_input(g, w, x.shape, *settings),
        chosen.convolution_weight(g, x, w.shape, *settings),
    )


def by_winograd(x, w, g, padding, sizes):
    margins = (2 - padding[0], 2 - padding[1])
    found = winograd.convolution(x, w, padding, sizes)
    if min(margins) < 0:
        by_input = None
    else:
        by_input = winograd.convolution(g, w, margins, x.shape[2:], turned=True)
    return found, by_input, winograd.weight_gradient(g, x, padding)


def assert_near(mine, right):
    assert mine.shape == right.shape
    assert mine.flags.c_contiguous
    np.testing.assert_allclose(mine, right, atol=1e-5 * max(1.0, np.abs(right).max()), rtol=0)


@pytest.mark.parametrize("high", SIZES)
def test_every_tail(high):
    for wide in SIZES:
        number = high * 20 + wide
        channels, made = number * 7 % 33 + 1, number * 5 % 33 + 1
        padding = (number % 4, number // 4 % 4)
        x, w, g, sizes = example(high, wide, channels, made, padding, number % 3 + 1)
        if g is None:
            continue
        for mine, right in zip(
            by_winograd(x, w, g, padding, sizes), exact(x, w, g, padding), strict=True
        ):
            if mine is not None:
                assert_near(mine, right)


@pytest.mark.parametrize("channels", range(1, 34))
@pytest.mark.parametrize("many", [1, 1 << 30])
def test_every_number_of_channels(monkeypatch, channels, many):
    monkeypatch.setattr(winograd, "MANY_FILTERS", many)
    for made in (1, 8, 15, 17, 33, 41):
        x, w, g, sizes = example(6, 9, channels, made, (1, 1))
        for mine, right in zip(
            by_winograd(x, w, g, (1, 1), sizes), exact(x, w, g, (1, 1)), strict=True
        ):
            assert_near(mine, right)


@pytest.mark.parametrize(("channels", "size"), [(64, 16), (128, 8), (48, 13), (64, 32)])
def test_errors_are_at_most_four_times_those_of_direct_sums(monkeypatch, channels, size):
    monkeypatch.setattr(cpu, "allow_split_products", False)  # which are more exact than sums
    padding, settings = (1, 1), ((1, 1), (1, 1), (1, 1))
    x, w, g, sizes = example(size, size, channels, channels, padding, 4)
    mine = by_winograd(x, w, g, padding, sizes)
    sums = (
        direct.convolution(x, w, sizes, settings),
        direct.input_gradient(g, w, x.shape, settings),
        direct.weight_gradient(g, x, w.shape, settings),
    )
    for found, summed, right in zip(mine, sums, exact(x, w, g, padding), strict=True):
        assert np.abs(found - right).max() <= 4 * np.abs(summed - right).max()


def test_any_strides_of_operands():
    x, w, g, sizes = example(9, 10, 5, 7, (1, 1))
    turned = [np.asfortranarray(a) for a in (x, w, g)]
    for mine, other in zip(
        by_winograd(x, w, g, (1, 1), sizes), by_winograd(*turned, (1, 1), sizes), strict=True
    ):
        assert np.array_equal(mine, other)


@pytest.mark.parametrize("groups", [1, 2])
def test_the_switch_and_groups(monkeypatch, groups):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(4, 64, 16, 16)).astype(np.float32)
    w = generator.normal(size=(64, 64 // groups, 3, 3)).astype(np.float32)
    settings = ((1, 1), (1, 1), (1, 1), groups)
    used = []
    real = winograd.convolution
    monkeypatch.setattr(winograd, "convolution", lambda *a, **k: used.append(1) or real(*a, **k))
    for allowed in (True, False):
        used.clear()
        monkeypatch.setattr(cpu, "allow_winograd", allowed)
        found = chosen.convolution(x, w, *settings)
        assert bool(used) is (allowed and groups == 1)
        right = chosen.convolution(x.astype(np.float64), w.astype(np.float64), *settings)
        assert_near(found, right)


@pytest.mark.parametrize("many", [1, 1 << 30])
def test_threads_change_nothing(monkeypatch, many):
    monkeypatch.setattr(winograd, "MANY_FILTERS", many)
    x, w, g, sizes = example(20, 20, 33, 70, (1, 1))
    monkeypatch.setattr(winograd.threads, "count", lambda: 3)
    several = by_winograd(x, w, g, (1, 1), sizes)
    monkeypatch.setattr(winograd.threads, "count", lambda: 1)
    for mine, other in zip(several, by_winograd(x, w, g, (1, 1), sizes), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5 * np.abs(mine).max())
