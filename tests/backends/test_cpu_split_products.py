"""Products by bfloat16 tiles against NumPy's in double precision; on processors without them the
same tests hold for what computes in their place."""

import itertools

import numpy as np
import pytest

import ember as torch
from ember.backends import cpu
from ember.backends.cpu import products, split_products, threads
from ember.backends.cpu.products import Gathered
from ember.backends.cpu.split_products import multiply


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(split_products, "LEAST_WORK", 1)
    monkeypatch.setattr(split_products, "LEAST_SIZE", 1)
    split_products._known.clear()
    yield
    split_products._known.clear()


def matrix(rows, columns, turned, seed=0):
    shape = (columns, rows) if turned else (rows, columns)
    made = np.random.default_rng(rows + columns + seed).normal(size=shape).astype(np.float32)
    return made.T if turned else made


def right(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def assert_near(mine, a, b, start=0.0):
    bound = np.abs(a).astype(np.float64) @ np.abs(b) + 1
    assert (np.abs(mine - right(a, b) - start) <= 2e-6 * bound).all()


SIZES = (1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 65)


@pytest.mark.parametrize(("left", "across"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("start", ["zero", "bias", "adds"])
def test_tails(left, across, start):
    for i, (rows, columns) in enumerate(itertools.product(SIZES, repeat=2)):
        terms = SIZES[i % len(SIZES)]
        a, b = matrix(rows, terms, left), matrix(terms, columns, across)
        whole = np.full((rows + 2, columns + 3), 3, np.float32)
        out = whole[1:-1, 1:-2]
        bias = np.arange(columns, dtype=np.float32) if start == "bias" else None
        multiply(a, b, out, bias, adds=start == "adds")
        assert_near(out, a, b, 0.0 if start == "zero" else 3.0 if bias is None else bias)
        whole[1:-1, 1:-2] = 3
        assert (whole == 3).all()


@pytest.mark.parametrize("shape", [(700, 40, 1100), (33, 530, 1700), (1100, 513, 20)])
@pytest.mark.parametrize("count", [1, 2])
def test_several_blocks_and_threads(shape, count):
    rows, terms, columns = shape
    a, b = matrix(rows, terms, True), matrix(terms, columns, False)
    out = np.ones((rows, columns), np.float32)
    before = threads.count()
    threads.set_count(count)
    try:
        multiply(a, b, out, adds=True)
    finally:
        threads.set_count(before)
    assert_near(out, a, b, 1)


def test_parts_of_larger_matrices():
    a, b = matrix(40, 90, False)[3:33, 5:75], matrix(90, 60, True)[7:77, 1:41]
    out = np.empty((30, 40), np.float32)
    multiply(a, b, out)
    assert_near(out, a, b)


def test_gathered_operands():
    generator = np.random.default_rng(0)
    source = generator.normal(size=5000).astype(np.float32)
    for rows, terms, columns in ((7, 40, 33), (50, 33, 16), (20, 600, 70)):
        down, along = generator.integers(0, 2500, (2, max(rows, columns, terms)))
        left, across = Gathered(source, down[:rows], along[:terms]), down[:columns]
        a = source[down[:rows, None] + along[:terms]]
        b = source[along[:terms, None] + across]
        out = np.empty((rows, columns), np.float32)
        multiply(left, Gathered(source, along[:terms], across), out)
        assert_near(out, a, b)


def test_more_exact_than_sums_one_by_one():
    """A sum of positive numbers, whose roundings add up, and one of numbers of both signs."""
    for low in (0, -1):
        a = np.random.default_rng(0).uniform(low, 1, (64, 512)).astype(np.float32)
        b = np.random.default_rng(1).uniform(low, 1, (512, 64)).astype(np.float32)
        out, plain = np.empty((64, 64), np.float32), np.zeros((64, 64), np.float32)
        multiply(a, b, out)
        for k in range(512):
            plain += a[:, k, None] * b[k]
        error, bound = (np.abs(x - right(a, b)).max() for x in (out, plain))
        assert error <= bound


def test_whole_numbers_are_exact():
    generator = np.random.default_rng(0)
    a = generator.integers(-2047, 2048, (40, 4)).astype(np.float32)
    b = generator.integers(-2047, 2048, (4, 50)).astype(np.float32)
    out = np.empty((40, 50), np.float32)
    multiply(a, b, out)
    assert (out == right(a, b)).all()
    big = np.full((1, 2), 2.0**23 + 1, np.float32)
    one = np.empty((1, 1), np.float32)
    multiply(big, np.eye(2, 1, dtype=np.float32), one)
    assert one == 2.0**23 + 1


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 3.4e38, -3.4028235e38, 1e-39])
@pytest.mark.parametrize("adds", [False, True])
def test_numbers_that_cannot_be_split(odd, adds):
    a, b = np.zeros((20, 40), np.float32), np.eye(40, 33, dtype=np.float32)
    a[:, 1] = -1.0 if abs(odd) > 1 or np.isnan(odd) else 0
    a[3, 5] = odd
    out = np.full((20, 33), 2, np.float32)
    multiply(a, b, out, adds=adds)
    expected = np.zeros((20, 33), np.float32)
    products.multiply(a, b, expected)
    if adds:
        expected += 2
    assert np.array_equal(out, expected, equal_nan=True)
    assert np.array_equal(out[3, 5], np.float32(odd + 2 * adds), equal_nan=True)


def test_very_small_matrices():
    a, b = matrix(20, 40, False) * np.float32(1e-33), matrix(40, 30, False)
    out = np.empty((20, 30), np.float32)
    multiply(a, b, out)
    bound = np.abs(a).astype(np.float64) @ np.abs(b)
    assert (np.abs(out - right(a, b)) <= 2e-6 * bound).all()


@pytest.mark.parametrize("allowed", [True, False])
def test_switch(monkeypatch, allowed):
    monkeypatch.setattr(cpu, "allow_split_products", allowed)
    assert split_products.suits(*np.ones((2, 64, 64), np.float32)) <= allowed
    x, w = matrix(100, 80, False), matrix(70, 80, False)
    made = torch.from_numpy(x) @ torch.from_numpy(w).T
    assert_near(made.numpy(), x, w.T)
