"""Sums down long dims keep their digits."""

import numpy as np
import pytest

import ember as torch


@pytest.mark.parametrize(
    "shape", [(30000, 2), (1000, 3, 5), (257, 1, 4), (256, 7), (64 * 64 + 1, 3)]
)
def test_sums_down_a_dim_are_as_exact_as_along_it(shape):
    rng = np.random.default_rng(0)
    x = (rng.random(shape) * 1e4).astype(np.float32)
    exact = x.astype(np.float64).sum(0)
    found = torch.from_numpy(x).sum(0).numpy()
    assert found.shape == exact.shape
    np.testing.assert_allclose(found, exact, rtol=4e-7)


def test_several_dims_and_kept_ones():
    x = np.arange(300 * 4 * 270, dtype=np.float32).reshape(300, 4, 270) % 13
    exact = x.astype(np.float64)
    tensor = torch.from_numpy(x)
    for dims in ((0, 1), (0, 2), (0,), (1,), (0, 1, 2)):
        for keep in (False, True):
            found = tensor.sum(dims, keepdim=keep).numpy()
            assert found.shape == exact.sum(dims, keepdims=keep).shape
            np.testing.assert_array_equal(found, exact.sum(dims, keepdims=keep))


def test_strided_and_half_and_complex():
    x = torch.arange(600 * 8, dtype=torch.float32).reshape(600, 8) % 7
    exact = x.double()
    assert torch.equal(x[::2].sum(0).double(), exact[::2].sum(0))
    assert torch.equal(x.t().contiguous().t().sum(0).double(), exact.sum(0))
    assert torch.equal(x.half().sum(0).double(), exact.sum(0).half().double())
    turned = x.to(torch.complex64) * 1j
    assert torch.equal(turned.sum(0).imag.double(), exact.sum(0))


@pytest.mark.parametrize("length", [255, 256, 257, 1000, 4095])
def test_products_of_many_factors(length):
    x = np.random.default_rng(length).uniform(0.99, 1.01, (2, 3, length)).astype(np.float32)
    found = torch.from_numpy(x).prod(-1)
    np.testing.assert_allclose(found.numpy(), x.astype(np.float64).prod(-1), rtol=1e-5)
    assert torch.from_numpy(x[0, 0]).prod(0, keepdim=True).shape == (1,)
    x[0, 0, -1], x[1, 1, 0] = 0.0, np.nan
    found = torch.from_numpy(x).prod(-1)
    assert found[0, 0] == 0 and found[1, 1].isnan()
