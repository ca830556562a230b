"""Compiled max pooling gives the very values, indices and gradients that NumPy's passes give."""

import numpy as np
import pytest

from ember.backends.cpu import pooling

CASES = [  # shape, kernel, stride, padding, output
    ((2, 3, 20, 33), (3, 3), (2, 2), (1, 1), (10, 17)),
    ((2, 3, 20, 33), (3, 2), (1, 1), (1, 0), (20, 32)),
    ((3, 40, 50), (2, 2), (2, 2), (0, 0), (20, 25)),
    ((3, 41, 51), (2, 2), (2, 2), (0, 0), (21, 26)),  # with ceil_mode
    ((5, 7, 9), (5, 7), (3, 1), (2, 3), (3, 9)),
    ((4, 3, 100), (4,), (2,), (2,), (51,)),
    ((4, 100), (3,), (1,), (1,), (100,)),
    ((2, 1, 70), (1, 3), (1, 2), (0, 1), (1, 35)),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "output"), CASES)
@pytest.mark.parametrize("kind", ["normal", "equal", "missing", "lowest", "strided"])
def test_values_indices_and_gradients(monkeypatch, shape, kernel, stride, padding, output, kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "equal":
        x = np.round(x)
    elif kind == "missing":
        x[rng.random(shape) < 0.2] = np.nan
    elif kind == "lowest":
        x[rng.random(shape) < 0.9] = -np.inf
    elif kind == "strided":
        x = np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    g = rng.standard_normal((*shape[: len(shape) - len(kernel)], *output)).astype(np.float32)
    found = []
    for least in (1, 1 << 60):
        monkeypatch.setattr(pooling, "WORTH_COMPILING", least)
        values, places = pooling.max_pool(x, kernel, stride, padding, (1,) * len(kernel), output)
        back = pooling.max_pool_backward(g, places, shape, len(kernel))
        found.append((values, places, back))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)
