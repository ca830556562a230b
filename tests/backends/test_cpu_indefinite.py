"""L·D·L^T and L·D·L^H: systems that come out right, LAPACK's storage."""

import numpy as np
import pytest

pytest.importorskip("scipy")
from ember.backends.cpu.indefinite import ldl_factor, ldl_solve


@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("hermitian", [False, True])
def test_systems(batch, dtype, hermitian):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*batch, 6, 6))
    a = (a + 1j * rng.standard_normal(a.shape) if dtype[0] == "c" else a).astype(dtype)
    turned = np.swapaxes(a, -1, -2)
    a = (a + (turned.conj() if hermitian else turned)) / 2
    a[..., range(6), range(6)] = 0  # needs blocks of two rows
    factors, pivots, info = ldl_factor(a, hermitian)
    assert factors.shape == a.shape
    assert (factors.dtype, pivots.dtype, info.dtype) == (a.dtype, np.int32, np.int32)
    assert not info.any()
    b = rng.standard_normal((*batch, 6, 2)).astype(dtype)
    tolerance = 1e-3 if dtype in ("f4", "c8") else 1e-9
    x = ldl_solve(factors, pivots, b, hermitian)
    np.testing.assert_allclose(np.matmul(a, x), b, rtol=tolerance, atol=tolerance)


def test_recorded_blocks():
    # Recorded from PyTorch.
    factors, pivots, info = ldl_factor(np.array([[1.0, 2, 3], [2, 0, 1], [3, 1, 0]]))
    expected = [[1, 0, 0], [3, 0, 0], [1 / 3, 5 / 9, -11 / 9]]
    np.testing.assert_allclose(factors, expected, atol=1e-12)
    assert (pivots.tolist(), info) == ([-3, -3, 3], 0)
    pivots, info = ldl_factor(np.zeros((2, 2)))[1:]
    assert (pivots.tolist(), info) == ([1, 2], 1)
