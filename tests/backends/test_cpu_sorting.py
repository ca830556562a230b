"""Order along a dim: sorting, selection, distinct values, bins; NaN, ties, −0, every dtype."""

import bisect
import math
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import binning, sort_keys, sorting
from ember.backends.cpu.binning import (
    bincount,
    histc,
    histogram,
    histogramdd,
    searchsorted,
)
from ember.backends.cpu.sorting import (
    aminmax,
    argmax,
    argmin,
    argsort,
    kthvalue,
    median,
    median_all,
    mode,
    nanmedian,
    nanmedian_all,
    sort,
    topk,
)
from ember.backends.cpu.uniqueness import isin, unique, unique_consecutive

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=60, derandomize=True)
NAN, INF = math.nan, math.inf
DTYPES = ["f4", "f8", "f2", "bf16", "i8", "i4", "i2", "i1", "u1", "?"]
SHAPES = [(), (1,), (7,), (40,), (300,), (3, 5), (4, 3, 6), (0,), (3, 0)]


def numbers(shape, dtype, seed, kind):
    """Few different values with NaN, infinities and −0, or any values."""
    rng = np.random.default_rng(seed)
    kind = kind if dtype != "?" else 0
    name = ml_dtypes.bfloat16 if dtype == "bf16" else dtype
    if kind == 1 and dtype[0] in "iu":
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    x = np.asarray(rng.integers(0, 4, shape)).astype(name)
    if dtype[0] in "fb" and kind and x.size:
        spread = np.asarray(rng.standard_normal(shape) * (kind == 1)).astype(name)
        x = np.asarray(x + spread)
        special = rng.integers(0, 12, shape)
        for number, value in enumerate([NAN, INF, -INF, -0.0, -NAN]):
            x = np.where(special == number, np.asarray(value).astype(name), x)
    return np.asarray(x)


def order_of(values, descending=False):
    """Places in order by Python's stable sort; NaN is larger than all and equals NaN."""
    keys = [(math.isnan(v), 0 if math.isnan(v) else v) for v in map(float, values)]
    return (
        sorted(range(len(keys)), key=keys.__getitem__, reverse=False)
        if not descending
        else (sorted(range(len(keys)), key=lambda at: tuple(-k for k in keys[at])))
    )


def rows_of(x, dim):
    """The vectors along a dim."""
    x = x.reshape(1) if x.ndim == 0 else np.moveaxis(x, dim, -1)
    return x.reshape(-1, x.shape[-1]) if x.size else []


def same(found, expected):
    """Equal values, where NaN is NaN and −0 is −0."""
    found, expected = np.asarray(found, "f8"), np.asarray(expected, "f8")
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found) & (found == 0), np.signbit(expected) & (expected == 0)
    )


CASES = st.tuples(
    st.sampled_from(SHAPES),
    st.sampled_from(DTYPES),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 3),
)


@pytest.fixture(params=[0, 256])
def few(request, monkeypatch):
    """Small inputs sorted by NumPy at once, or packed as large ones are."""
    monkeypatch.setattr(sort_keys, "FEW", request.param)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.usefixtures("few")
def test_sort(relaid, shape, dtype, kind):
    x = relaid(numbers(shape, dtype, 1, kind), kind)
    for dim in range(max(x.ndim, 1)):
        for descending in (False, True):
            values, indices = sort(x, dim, descending)
            assert values.shape == indices.shape == x.shape
            assert values.dtype == x.dtype
            assert indices.dtype == np.int64
            assert values.flags.c_contiguous
            for row, ordered, places in zip(*(rows_of(a, dim) for a in (x, values, indices))):
                expected = order_of(row, descending)
                assert places.tolist() == expected
                same(ordered, row[expected])
            np.testing.assert_array_equal(argsort(x, dim - x.ndim, descending), indices)


def test_wide_integers_with_many_ties():
    # 64 bits of value leave none for the place: runs of equals are put in order afterwards.
    rng = np.random.default_rng(2)
    x = rng.choice(np.array([-(2**63), 2**63 - 1, 0, 5]), 500)
    values, indices = sort(x)
    assert indices.tolist() == sorted(range(500), key=x.tolist().__getitem__)
    assert values.tolist() == sorted(x.tolist())


@SETTINGS
@given(CASES, st.data())
def test_selection(relaid, case, data):
    shape, dtype, seed, kind, layout = case
    x = relaid(numbers(shape, dtype, seed, kind), layout)
    dim = data.draw(st.integers(0, max(x.ndim - 1, 0)))
    count = x.shape[dim] if x.ndim else 1
    k = data.draw(st.integers(0, count))
    largest = data.draw(st.booleans())
    top = topk(x, k if x.ndim else 1, dim, largest)
    loose = topk(x, k if x.ndim else 1, dim, largest, False)
    if x.size:
        kth = kthvalue(x, max(k, 1), dim)
        middle, number, common = median(x, dim, True), nanmedian(x, dim), mode(x, dim)
    for place, row in enumerate(rows_of(x, dim)):
        held = row.astype("f8")
        expected = order_of(row, largest)[: k if x.ndim else 1]
        if expected:
            values, places = (rows_of(a, dim)[place] for a in top)
            assert values.dtype == x.dtype
            assert places.tolist() == expected
            same(values, row[expected])
            values, places = (rows_of(a, dim)[place] for a in loose)
            assert sorted(places.tolist()) == sorted(expected)
        at = order_of(row)[max(k, 1) - 1]
        same(kth[0].reshape(-1)[place], row[at])
        assert kth[1].reshape(-1)[place] == at
        plain = order_of(row)[: len(row) - int(np.isnan(held).sum())]
        half = plain[(len(plain) - 1) // 2] if plain else 0
        same(number[0].reshape(-1)[place], held[half])
        missing = np.flatnonzero(np.isnan(held))
        same(middle[0].reshape(-1)[place], held[missing[0]] if missing.size else held[half])
        assert middle[1].reshape(-1)[place] == (missing[0] if missing.size else half)
        if not missing.size:
            counts = Counter(held.tolist())
            best = max(sorted(counts), key=counts.__getitem__)
            assert float(common[0].reshape(-1)[place]) == best
            assert common[1].reshape(-1)[place] == np.flatnonzero(held == best)[-1]


def test_medians_of_all():
    # Recorded from PyTorch.
    assert median_all(np.array([3.0, 1.0, 2.0, 2.0])) == 2
    assert np.isnan(median_all(np.array([3.0, NAN])))
    assert nanmedian_all(np.array([[3.0, NAN], [2.0, NAN]])) == 2
    assert np.isnan(nanmedian_all(np.zeros(0)))
    assert median_all(np.zeros(0, np.int64)) == -(2**63)
    assert median(np.array([[2.0, 1, 2, 2, 2, 0, 2]]), 1)[1].tolist() == [2]


def test_extremes():
    # Recorded from PyTorch: the first NaN, else the first of equals.
    x = np.array([1.0, NAN, 3.0, NAN])
    assert (argmax(x), argmin(x)) == (1, 1)
    assert (argmax(np.array([1, 3, 3])), argmin(np.array([3, 1, 1]))) == (1, 1)
    table = np.array([[1, 5, 2], [7, 0, 7]])
    assert argmax(table, 0).tolist() == [1, 0, 1]
    assert argmin(table, 1, True).tolist() == [[0], [1]]
    assert argmax(table) == 3
    assert argmax(table, None, True).tolist() == [[3]]
    assert argmax(table.astype(ml_dtypes.bfloat16), 1).tolist() == [1, 0]
    assert argmax(np.array(3.0), 0, True).shape == ()
    assert argmax(np.zeros((0, 2)), 1).shape == (0,)
    low, high = aminmax(table, 0, True)
    assert (low.tolist(), high.tolist()) == ([[1, 0, 2]], [[7, 5, 7]])
    assert all(np.isnan(a) for a in aminmax(x))
    assert [a.dtype for a in aminmax(np.array([True, False]))] == [np.bool_, np.bool_]


def test_out_of_range():
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        topk(np.zeros(3), 4)
    with pytest.raises(RuntimeError, match="selected number k out of range"):
        kthvalue(np.zeros(3), 0)
    with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
        median(np.zeros((2, 0)), 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("few")
def test_distinct(shape, dtype):
    x = numbers(shape, dtype, 3, 2)
    flat = x.reshape(-1)
    firsts: list[int] = []  # the first place of every different value; NaN is never the same
    held = [float(v) for v in flat]
    for at in order_of(flat):
        if not firsts or held[firsts[-1]] != held[at]:
            firsts.append(at)
    values, inverse, counts = unique(x, True, True, True)
    same(values, flat[firsts])
    assert values.dtype == x.dtype
    assert inverse.shape == x.shape
    same(values[inverse], x) if not np.signbit(np.asarray(x, "f8")).any() else None
    assert counts.sum() == x.size
    assert (np.bincount(inverse.reshape(-1), minlength=len(values)) == counts).all()
    assert unique(x)[0].tobytes() == values.tobytes()
    runs = [at for at in range(len(held)) if at == 0 or held[at] != held[at - 1]]
    values, inverse, counts = unique_consecutive(x, True, True)
    same(values, flat[runs])
    assert counts.tolist() == np.diff([*runs, x.size]).tolist()
    assert inverse.reshape(-1).tolist() == [bisect.bisect(runs, at) - 1 for at in range(x.size)]


@SETTINGS
@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 3), st.integers(0, 1))
def test_distinct_slices(count, width, values, dim):
    rng = np.random.default_rng([count, width])
    x = rng.integers(0, values, (count, width))
    rows = [tuple(row) for row in x.tolist()]
    table = sorted(set(rows))
    found, inverse, counts = unique(x.T if dim else x, True, True, True, dim)
    assert (found.T if dim else found).tolist() == [list(row) for row in table]
    assert inverse.tolist() == [table.index(row) for row in rows]
    assert counts.tolist() == [rows.count(row) for row in table]
    runs = [row for at, row in enumerate(rows) if at == 0 or row != rows[at - 1]]
    found = unique_consecutive(x.T if dim else x, True, True, dim)[0]
    assert (found.T if dim else found).tolist() == [list(row) for row in runs]


def test_distinct_slices_of_nothing():
    assert unique(np.zeros((0, 3)), True, True, True, 0)[0].shape == (0, 3)
    with pytest.raises(RuntimeError, match="There are 0 sized dimensions"):
        unique(np.zeros((3, 0)), dim=0)


def test_isin():
    assert isin(np.array([1.0, NAN]), np.array([NAN, 1.0])).tolist() == [True, False]
    assert isin(np.array([[1, 2], [3, 4]]), np.array([2, 3]), True).tolist() == [
        [True, False],
        [False, True],
    ]
    assert isin(np.array(1), np.zeros(0)).shape == ()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_searchsorted(relaid, right, count):
    rng = np.random.default_rng(4)
    find = bisect.bisect_right if right else bisect.bisect_left
    sequences = np.sort(rng.integers(0, 9, (2, 3, 10)), -1)
    values = rng.integers(-1, 10, (2, 3, count))
    found = searchsorted(relaid(sequences, 1), relaid(values, 2), right)
    for place in np.ndindex(2, 3):
        expected = [find(sequences[place].tolist(), v) for v in values[place].tolist()]
        assert found[place].tolist() == expected
    line = sequences[0, 0]
    expected = [[find(line.tolist(), v) for v in row] for row in values[0].tolist()]
    assert searchsorted(line, values[0], right).tolist() == expected
    shuffled = rng.permutation(line)
    order = np.argsort(shuffled, kind="stable")
    assert searchsorted(shuffled, values[0], right, order).tolist() == expected


def test_searchsorted_with_nan():
    # Recorded from PyTorch: no comparison with NaN holds.
    values = np.array([2.0, NAN, 0.0, INF])
    assert searchsorted(np.array([1.0, 2, 2, 3]), values).tolist() == [1, 4, 0, 4]
    assert searchsorted(np.array([1.0, 2, NAN, NAN]), values).tolist() == [4, 4, 4, 4]


def test_bincount():
    # Recorded from PyTorch: weights of float32 give float32, all others float64.
    x = np.array([1, 1, 3])
    assert bincount(x).tolist() == [0, 2, 0, 1]
    assert bincount(x.astype(np.uint8), None, 6).tolist() == [0, 2, 0, 1, 0, 0]
    for dtype, expected in (("f4", "f4"), ("f8", "f8"), ("i8", "f8")):
        sums = bincount(x, np.array([1, 2, 3], dtype))
        assert sums.dtype == expected
        assert sums.tolist() == [0, 3, 0, 3]
    assert bincount(np.zeros(0, np.int64), np.zeros(0), 2).dtype == np.int64
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        bincount(np.array([-1]))
    with pytest.raises(RuntimeError, match="same length as input"):
        bincount(x, np.ones(2))


def test_histograms(monkeypatch):
    # Recorded from PyTorch.
    x = np.array([1.0, 2.0, 1.0, NAN, 4.0], "f4")
    assert histc(x, 4, 0, 3).tolist() == [0, 2, 1, 0]
    assert histc(x[[0, 1, 2, 4]], 4).tolist() == [2, 1, 0, 1]
    assert histc(np.ones(2), 3).tolist() == [0, 2, 0]
    assert histc(np.zeros(0), 3).tolist() == [0, 0, 0]
    weights = np.array([1.0, 2.0, 4.0])
    shares, edges = histogram(np.array([1.0, 2.0, 1.0]), 4, (0.0, 3.0), weights, True)
    np.testing.assert_allclose(shares, [0, 0.952381, 0.3809524, 0], rtol=1e-6)
    assert edges.tolist() == [0, 0.75, 1.5, 2.25, 3]
    assert histogram(np.array([1.0, 2, 3, 0]), np.array([0.0, 1, 3]))[0].tolist() == [1, 3]
    np.testing.assert_allclose(histogram(np.ones(2), 3)[1], [0.5, 5 / 6, 7 / 6, 1.5])
    assert histogram(np.zeros(0), 2)[1].tolist() == [0, 0.5, 1]
    many = np.random.default_rng(0).standard_normal(1000)
    whole = histc(many, 7, -2, 2)
    monkeypatch.setattr(binning, "BLOCK", 9)
    assert histc(many, 7, -2, 2).tolist() == whole.tolist()
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        histc(x, 0)
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        histc(x, 3, 5, 1)
    with pytest.raises(RuntimeError, match="is not finite"):
        histc(x, 3)


def test_histograms_of_several_dims():
    # Recorded from PyTorch.
    points = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    sums, first, second = histogramdd(points, (3, 3), None, np.array([1.0, 2.0, 4.0, 8.0]))
    assert sums.tolist() == [[0, 1, 0], [2, 0, 0], [4, 0, 8]]
    np.testing.assert_allclose(first, [0, 2 / 3, 4 / 3, 2])
    sums, first, second = histogramdd(points, (2, 2), (0.0, 1.0, 0.0, 1.0), None, True)
    assert sums.tolist() == [[0, 2], [2, 0]]
    assert second.tolist() == [0, 0.5, 1]


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    for number, dtype in enumerate(["f4", "f8", "i8", "i1", "u1"] * 4):
        x = numbers((4, 30), dtype, number, number % 3)
        t = torch.from_numpy(x)
        for descending in (False, True):
            expected = torch.sort(t, dim=number % 2, descending=descending, stable=True)
            for found, other in zip(sort(x, number % 2, descending), expected):
                np.testing.assert_array_equal(found, other.numpy())
        np.testing.assert_array_equal(topk(x, 5)[0], torch.topk(t, 5)[0].numpy())
        np.testing.assert_array_equal(kthvalue(x, 7, 1)[0], torch.kthvalue(t, 7, 1)[0].numpy())
        np.testing.assert_array_equal(median(x, 1)[0], torch.median(t, 1)[0].numpy())
        np.testing.assert_array_equal(nanmedian(x, 1)[0], torch.nanmedian(t, 1)[0].numpy())
        np.testing.assert_array_equal(argmax(x, 0), torch.argmax(t, 0).numpy())
        np.testing.assert_array_equal(argmin(x), torch.argmin(t).numpy())
        np.testing.assert_array_equal(unique(x)[0], torch.unique(t).numpy())
        line = np.sort(x[0][x[0] == x[0]])
        expected = torch.searchsorted(torch.from_numpy(line), t, right=bool(number % 2)).numpy()
        np.testing.assert_array_equal(searchsorted(line, x, bool(number % 2)), expected)
        if dtype[0] == "f":
            y = np.random.default_rng(number).standard_normal(200).astype(dtype)
            s = torch.from_numpy(y)
            np.testing.assert_array_equal(histc(y, 9), torch.histc(s, 9).numpy())
            for found, other in zip(
                histogram(y, 6, (-1.0, 1.5)), torch.histogram(s, 6, range=(-1.0, 1.5))
            ):
                np.testing.assert_array_equal(found, other.numpy())


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(("shape", "k"), [((20000,), 50), ((20, 1000), 5), ((2, 640), 9)])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("ties", [False, True])
def test_topk_among_the_candidates_of_long_rows(dtype, shape, k, largest, ties):
    numbers = np.random.default_rng(0).normal(size=shape) * (3 if ties else 1e6)
    x = np.trunc(numbers).astype(dtype)
    if dtype[0] == "f":
        x[..., 7], x[..., 11] = np.inf, -np.inf
    values, places = sorting.topk(x, k, -1, largest)
    order = np.argsort(-x.astype("f8") if largest else x, -1, kind="stable")[..., :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


def test_topk_of_long_rows_with_nan_and_of_equals():
    x = np.zeros(20000, np.float32)
    assert sorting.topk(x, 3)[1].tolist() == [0, 1, 2]
    for place in (5, 19999):
        y = x.copy()
        y[place] = np.nan
        values, places = sorting.topk(y, 2)
        assert np.isnan(values[0]) and places.tolist() == [place, 0]
        assert sorting.topk(y, 2, -1, False)[0].tolist() == [0.0, 0.0]
