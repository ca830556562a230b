"""Products of packed panels against NumPy's in double precision."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import products, threads
from ember.backends.cpu.products import Gathered, multiply


def matrix(generator, rows, columns, turned):
    made = generator.normal(size=(columns, rows) if turned else (rows, columns))
    made = made.astype(np.float32)
    return made.T if turned else made


def assert_near(mine, a, b, start=0.0):
    right = a.astype(np.float64) @ b.astype(np.float64) + start
    bound = np.abs(a).astype(np.float64) @ np.abs(b) + 1
    assert (np.abs(mine - right) <= 1e-5 * bound).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 120), st.integers(1, 600), st.booleans(), st.booleans(),
    st.sampled_from(["zero", "bias", "adds"]),
)  # fmt: skip
def test_any_shape(made, columns, count, left_turned, right_turned, start):
    generator = np.random.default_rng(made + columns)
    a = matrix(generator, made, count, left_turned)
    b = matrix(generator, count, columns, right_turned)
    assert products.suits(a)
    assert products.suits(b)
    out = np.full((made, columns), 3, np.float32)
    bias = generator.normal(size=columns).astype(np.float32) if start == "bias" else None
    multiply(a, b, out, bias, adds=start == "adds")
    assert_near(out, a, b, 0.0 if start == "zero" else 3.0 if bias is None else bias)


@pytest.mark.parametrize(
    ("made", "columns", "count"), [(400, 40, 30), (30, 1700, 40), (390, 1600, 300), (5, 7, 1100)]
)
def test_several_blocks(made, columns, count):
    generator = np.random.default_rng(0)
    a, b = matrix(generator, made, count, False), matrix(generator, count, columns, True)
    out = np.empty((made, columns), np.float32)
    multiply(a, b, out)
    assert_near(out, a, b)


def test_parts_of_larger_matrices():
    generator = np.random.default_rng(0)
    a = matrix(generator, 40, 50, False)[3:33, 5:45]
    b = matrix(generator, 60, 90, False)[7:47, 1:71]
    whole = np.full((50, 100), 2, np.float32)
    multiply(a, b, whole[10:40, 20:90])
    assert_near(whole[10:40, 20:90], a, b)
    outside = np.ones(whole.shape, bool)
    outside[10:40, 20:90] = False
    assert (whole[outside] == 2).all()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_same_bits(monkeypatch, workers):
    generator = np.random.default_rng(0)
    monkeypatch.setattr(products, "GRAIN", 1)
    for made, columns in ((200, 90), (90, 200), (3, 500)):
        a, b = matrix(generator, made, 64, True), matrix(generator, 64, columns, True)
        outs = [np.empty((made, columns), np.float32) for _ in range(2)]
        for out, count in zip(outs, (1, workers), strict=True):
            monkeypatch.setattr(threads, "count", lambda count=count: count)
            multiply(a, b, out)
        assert np.array_equal(*outs)
        assert_near(outs[0], a, b)


def test_gathered_operands():
    generator = np.random.default_rng(0)
    source = generator.normal(size=5000).astype(np.float32)
    for made, count, columns in itertools.product((1, 9, 50), (1, 20, 300), (1, 17, 100)):
        places = [generator.integers(0, 2500, n) for n in (made, count, count, columns)]
        left, right = Gathered(source, *places[:2]), Gathered(source, *places[2:])
        a = source[places[0][:, None] + places[1]]
        b = source[places[2][:, None] + places[3]]
        out = np.empty((made, columns), np.float32)
        multiply(left, right, out)
        assert_near(out, a, b)
        multiply(a, right, out)
        assert_near(out, a, b)


def test_what_does_not_suit():
    x = np.zeros((6, 8), np.float32)
    assert not products.suits(x[:, ::2])
    assert not products.suits(x[:, ::-1])
    assert not products.suits(x[::-1])
    assert not products.suits(x.astype(np.float64))
    assert products.suits(x[::2])
    assert products.suits(x.T)
