"""Linear maps of few rows are what NumPy says in double precision."""

import numpy as np
import pytest

from ember.backends.cpu import few_rows, small_products, threads
from ember.backends.cpu.matmul import linear, linear_backward


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [(8, 1024, 32), (64, 784, 256), (33, 257, 100), (17, 300, 65), (64, 130, 49), (31, 2000, 48)],
)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_values(rows, terms, columns, biased, step):
    x = numbers(rows, step * terms)[:, :terms]
    weight = numbers(columns, step * terms, seed=1)[:, :terms]
    bias = numbers(columns, seed=2) if biased else None
    assert few_rows.suits(x, weight, bias)
    out = np.full((rows, columns + 3), 7, np.float32)
    few_rows.linear(x, weight, bias, out[:, :columns])
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + (0 if bias is None else bias)
    np.testing.assert_allclose(out[:, :columns], exact, rtol=0, atol=3e-4 * (terms / 1000) ** 0.5)
    assert (out[:, columns:] == 7).all()
    np.testing.assert_array_equal(linear(x, weight, bias), out[:, :columns])


def test_threads_compute_blocks(monkeypatch):
    x, weight, bias = numbers(64, 256), numbers(500, 256, seed=1), numbers(500, seed=2)
    alone, together = (np.empty((64, 500), np.float32) for _ in range(2))
    before = threads.count()
    try:
        threads.set_count(1)
        few_rows.linear(x, weight, bias, alone)
        threads.set_count(3)
        few_rows._plan.cache_clear()
        monkeypatch.setattr(few_rows, "GRAIN", 1)
        few_rows.linear(x, weight, bias, together)
    finally:
        threads.set_count(before)
        few_rows._plan.cache_clear()
    np.testing.assert_array_equal(alone, together)


def test_what_does_not_suit():
    x, weight = numbers(64, 256), numbers(256, 256, seed=1)
    assert not few_rows.suits(numbers(65, 256), weight, None)
    assert not few_rows.suits(numbers(7, 256), weight, None)
    assert not few_rows.suits(x.astype(np.float64), weight.astype(np.float64), None)
    assert not few_rows.suits(np.asfortranarray(x), weight, None)
    assert not few_rows.suits(x, weight, numbers(512)[::2])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(64, 256, 10), (33, 100, 70), (64, 64, 64)])
def test_gradients(count, rows, terms, columns):
    g, x, weight = numbers(rows, columns), numbers(rows, terms, seed=1), numbers(columns, terms)
    before = threads.count()
    try:
        threads.set_count(count)
        found = linear_backward(g, x, weight, True, (True, True, True))
    finally:
        threads.set_count(before)
    g, x, weight = (a.astype(np.float64) for a in (g, x, weight))
    for one, exact in zip(found, (g @ weight, g.T @ x, g.sum(0)), strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("adds", [False, True])
def test_products_that_are_added_are_added_at_the_end(adds):
    a, b = numbers(50, 3000), numbers(3000, 32, seed=1)
    out = np.full((50, 32), 1000, np.float32)
    small_products.multiply(a, b, out, adds=adds)
    exact = a.astype(np.float64) @ b + (1000 if adds else 0)
    np.testing.assert_allclose(out, exact, rtol=0, atol=4e-4)
