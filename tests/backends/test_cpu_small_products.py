"""Compiled products of small matrices against NumPy's in double precision."""

import itertools

import numpy as np
import pytest

from ember.backends.cpu import small_products


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch):
    monkeypatch.setattr(small_products, "LEAST", 0)
    monkeypatch.setattr(small_products, "MOST_WASTE", 1000)
    monkeypatch.setattr(small_products, "_known", {})


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    list(itertools.product((1, 7, 8, 33), (1, 5, 64), (1, 16, 47, 130))),
)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_products(rows, inner, columns, turned, adds):
    generator = np.random.default_rng(0)
    shape = (inner, rows) if turned else (rows, inner)
    a = generator.normal(size=shape).astype(np.float32)
    a = a.T if turned else a
    wide = generator.normal(size=(inner, columns + 3)).astype(np.float32)
    b = wide[:, :columns]
    around = np.full((rows, columns + 5), 9, np.float32)
    out = around[:, 2 : columns + 2]
    wanted = a.astype(np.float64) @ b + (9 if adds else 0)
    small_products.multiply(a, b, out, adds=adds)
    np.testing.assert_allclose(out, wanted, atol=2e-5)
    assert (around[:, :2] == 9).all() and (around[:, columns + 2 :] == 9).all()


def test_other_types_go_to_blas():
    a = np.arange(6.0).reshape(2, 3)
    out = np.ones((2, 2))
    small_products.multiply(a, a.T, out, adds=True)
    assert out.tolist() == [[6.0, 15.0], [15.0, 51.0]]
