"""Images with channels last and images with channels first, made of each other."""

import numpy as np
import pytest

import ember as torch
from ember.backends.cpu import turning
from ember.backends.cpu.arrays import LEAST_TURNED, copied, row_major

SHAPES = [
    (1, 1, 1, 1),
    (2, 3, 5, 7),
    (2, 16, 16, 16),
    (3, 17, 5, 31),
    (1, 100, 1, 3),
    (5, 2, 130, 1),
    (4, 33, 9),
    (2, 18, 3, 4, 5),
]


def images(*shape):
    """Images with channels first, and the same with channels last."""
    first = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return first, np.moveaxis(np.ascontiguousarray(np.moveaxis(first, 1, -1)), -1, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_ways(shape):
    first, last = images(*shape)
    found = turning.channels_first(last)
    assert found.flags.c_contiguous
    assert np.array_equal(found, first)
    out = np.full_like(last, 7)
    assert turning.put_channels_last(first, out)
    assert np.array_equal(out, first)


def test_nothing_is_written_behind_the_last_element():
    first, last = images(2, 19, 5, 5)
    room = np.full(first.size + 64, 7, np.float32)
    out = np.moveaxis(room[: first.size].reshape(2, 5, 5, 19), -1, 1)
    assert turning.put_channels_last(first, out)
    assert np.array_equal(out, last)
    assert (room[first.size :] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64])
def test_any_dtype_and_order(dtype):
    first, last = (a.astype(dtype, order="K") for a in images(2, 32, 24, 24))
    assert first.size >= LEAST_TURNED
    rows = last.transpose(0, 1, 3, 2)
    for given in (last, first, last[:, :, ::2], last[:, 1:], rows, rows[..., ::-1]):
        found = row_major(given)
        assert found.flags.c_contiguous
        assert np.array_equal(found, given)
        out = np.zeros_like(last)[:, : given.shape[1], : given.shape[2], : given.shape[3]]
        copied(found, out)
        assert np.array_equal(out, given)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_convolutions_with_channels_last_are_those_with_channels_first(kernel, stride, dtype):
    first, _ = images(2, 32, 20, 21)
    weights, _ = images(40, 32, kernel, kernel)
    x, w = (torch.tensor(a).to(dtype) for a in (first, weights))
    results = []
    for order in (torch.contiguous_format, torch.channels_last):
        given = [t.to(memory_format=order).detach().requires_grad_() for t in (x, w)]
        y = torch.nn.functional.conv2d(*given, None, stride, kernel // 2)
        assert y.is_contiguous(memory_format=order)
        y.square().sum().backward()
        results.append([y.detach().double(), *(t.grad.double() for t in given)])
    close = 2e-2 if dtype is torch.bfloat16 else 1e-5
    for plain, turned in zip(*results, strict=True):
        bound = close * float(plain.abs().max())
        torch.testing.assert_close(turned, plain, atol=bound, rtol=0)
