"""Linear maps on the CPU, by BLAS and by the project's own products, in double precision."""

import numpy as np
import pytest

from ember.backends import cpu
from ember.backends.cpu import matmul, products

ALL = (True, True, True)


def assert_near(mine, right):
    assert mine.shape == right.shape
    np.testing.assert_allclose(mine, right, atol=1e-5 * (1 + np.abs(right).max(initial=0)), rtol=0)


@pytest.fixture(params=[1, 1 << 60])
def least(request, monkeypatch):
    """Every product packed, or none."""
    monkeypatch.setattr(matmul, "LEAST_PACKED", request.param)
    for name in ("LEAST_PACKED_ROWS", "LEAST_PACKED_COLUMNS"):
        monkeypatch.setattr(matmul, name, 1)


def example(shape, made, dtype=np.float32):
    generator = np.random.default_rng(0)
    x = generator.normal(size=shape).astype(dtype)
    w = generator.normal(size=(made, shape[-1])).astype(dtype)
    bias = generator.normal(size=made).astype(dtype)
    return x, w, bias, generator.normal(size=(*shape[:-1], made)).astype(dtype)


@pytest.mark.usefixtures("least")
@pytest.mark.parametrize("shape", [(1, 5), (20, 33), (3, 4, 17), (70, 300), (5,), (0, 4), (3, 0)])
@pytest.mark.parametrize("made", [1, 10, 65])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_gradients(shape, made, dtype):
    x, w, bias, g = example(shape, made, dtype)
    wide = [a.astype(np.float64) for a in (x, w, bias, g)]
    assert_near(matmul.linear(x, w, None), wide[0] @ wide[1].T)
    assert_near(matmul.linear(x, w, bias), wide[0] @ wide[1].T + wide[2])
    by_x, by_w, by_bias = matmul.linear_backward(g, x, w, True, ALL)
    flat_g, flat_x = wide[3].reshape(-1, made), wide[0].reshape(-1, shape[-1] or 1)
    assert_near(by_x, wide[3] @ wide[1])
    assert_near(by_w, flat_g.T @ flat_x if shape[-1] else np.zeros(w.shape))
    assert_near(by_bias, flat_g.sum(0))


@pytest.mark.usefixtures("least")
def test_operands_of_any_strides():
    x, w, bias, g = example((20, 33), 40)
    right = x.astype(np.float64) @ w.T + bias
    spread = np.zeros((40, 66), np.float32)
    spread[::2, ::2] = x
    for given in (x, np.asfortranarray(x), spread[::2, ::2], x[::-1][::-1]):
        for weight in (w, np.asfortranarray(w), w[::-1][::-1]):
            for added in (bias, np.repeat(bias, 2)[::2]):
                assert_near(matmul.linear(given, weight, added), right)
    same = np.broadcast_to(x[:1], x.shape)
    assert_near(matmul.linear(same, w, bias), np.repeat(right[:1], 20, 0))
    ones = np.broadcast_to(np.float32(1), g.shape)
    by_x, by_w, by_bias = matmul.linear_backward(ones, x, w, True, ALL)
    assert_near(by_x, np.ones(g.shape) @ w)
    assert_near(by_w, np.ones(g.shape).T @ x)
    assert_near(by_bias, np.full(40, 20.0))


@pytest.mark.parametrize(("rows", "packed"), [(100, 1), (64, 0), (16, 2), (4, 0)])
def test_which_products_are_packed(monkeypatch, rows, packed):
    seen = []
    real = products.multiply
    monkeypatch.setattr(cpu, "allow_split_products", False)
    monkeypatch.setattr(products, "multiply", lambda *a, **k: seen.append(1) or real(*a, **k))
    monkeypatch.setattr(matmul.threads, "count", lambda: 2)
    x, w, bias, g = example((rows, 512), 600)
    matmul.linear(x, w, bias)
    matmul.linear_backward(g, x, w, True, ALL)
    assert len(seen) == packed
