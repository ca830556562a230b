"""Reading and writing by index, against loops over indices: shapes, repeats, errors, dtypes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import scattering
from ember.backends.cpu.indexing import (
    IndexRangeError,
    gather,
    index,
    index_select,
    masked_select,
    nonzero,
    take,
)
from ember.backends.cpu.scattering import (
    accumulate_rows,
    index_add,
    index_copy,
    index_fill,
    index_put,
    index_reduce,
    masked_scatter,
    put,
    scatter,
)

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=60, derandomize=True)
DTYPES = [np.float32, np.int64, np.bool_, np.complex64, ml_dtypes.bfloat16]
COMBINE = {
    "sum": lambda values: sum(values[1:], values[0]),
    "prod": lambda values: np.prod(values),
    "amax": np.max,
    "amin": np.min,
    "mean": np.mean,
}


def numbered(shape, dtype):
    """Different numbers, as far as the dtype has so many."""
    return np.asarray((np.arange(np.prod(shape, dtype=int)) % 101).reshape(shape).astype(dtype))


@st.composite
def gathers(draw):
    """A shape, a dim and the shape of an index into it."""
    shape = tuple(draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3))))
    dim = draw(st.integers(0, len(shape) - 1))
    inner = [draw(st.integers(0, 5 if d == dim else n)) for d, n in enumerate(shape)]
    return shape, dim, tuple(inner)


def replaced(place, dim, value):
    return (*place[:dim], value, *place[dim + 1 :])


@SETTINGS
@given(gathers(), st.sampled_from(DTYPES), st.integers(0, 3))
def test_gather_and_scatter(relaid, case, dtype, layout):
    shape, dim, inner = case
    rng = np.random.default_rng(0)
    x = relaid(numbered(shape, dtype), layout)
    places = rng.integers(0, shape[dim], inner)
    source = relaid(numbered(tuple(n + 1 for n in inner), dtype), layout)
    found = gather(x, dim - len(shape), relaid(places, layout))
    written = scatter(x, dim, places, source)
    filled = scatter(x, dim, places, 1)
    expected, ones = np.array(x), np.array(x)
    assert found.dtype == written.dtype == x.dtype
    assert found.shape == inner
    for place in np.ndindex(*inner):
        there = replaced(place, dim, places[place])
        assert found[place] == x[there]
        expected[there] = source[place]
        ones[there] = 1
    assert (written == expected).all()
    assert (filled == ones).all()
    assert found.flags.c_contiguous
    assert written.flags.c_contiguous


@SETTINGS
@given(gathers(), st.sampled_from(sorted(COMBINE)), st.booleans())
def test_scatter_combines(case, name, include_self):
    shape, dim, inner = case
    rng = np.random.default_rng(1)
    x, source = rng.standard_normal(shape), rng.standard_normal(inner)
    places = rng.integers(0, shape[dim], inner)
    terms = {place: [x[place]] if include_self else [] for place in np.ndindex(*shape)}
    for place in np.ndindex(*inner):
        terms[replaced(place, dim, places[place])].append(source[place])
    found = scatter(x, dim, places, source, name, include_self)
    for place, values in terms.items():
        expected = COMBINE[name](values) if values else x[place]
        np.testing.assert_allclose(found[place], expected)


def test_means_of_integers_are_rounded_down():
    # Recorded from PyTorch: scatter_reduce(…, "mean").
    x, places = np.array([0, 7, -3]), np.array([1, 1, 2])
    assert scatter(x, 0, places, np.array([-4, -6, -4]), "mean").tolist() == [0, -1, -4]
    assert scatter(x, 0, places, np.array([-4, -7, -4]), "mean", False).tolist() == [0, -6, -4]


def test_extremes_keep_nan():
    # Recorded from PyTorch: scatter_reduce(…, "amax").
    nan = np.nan
    x, places = np.array([0.0, 7.0, nan]), np.array([1, 1, 2, 0])
    found = scatter(x, 0, places, np.array([nan, -6.0, -4.0, 2.0]), "amax")
    np.testing.assert_array_equal(found, [2, nan, nan])
    found = scatter(x, 0, places, np.array([-6.0, nan, -4.0, 2.0]), "amax", False)
    np.testing.assert_array_equal(found, [2, nan, -4])


@pytest.mark.parametrize("name", ["amax", "amin", "prod", "sum"])
def test_half_precision_combines(name):
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    found = scatter(x, 0, np.array([1, 1]), np.array([4, 5], ml_dtypes.bfloat16), name, False)
    assert found.dtype == x.dtype
    assert found.tolist() == [1, COMBINE[name]([4, 5]), 3]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_slices(dim, dtype):
    x = numbered((3, 4, 2), dtype)
    count = x.shape[dim]
    places = np.array([1, 0, 1])
    source = numbered(tuple(3 if d == dim % 3 else n for d, n in enumerate(x.shape)), dtype)
    moved, pieces = np.moveaxis(x, dim, 0), np.moveaxis(source, dim, 0)
    chosen = np.moveaxis(index_select(x, dim, places), dim, 0)
    assert all((chosen[k] == moved[place]).all() for k, place in enumerate(places))
    copied = np.moveaxis(index_copy(x, dim, places, source), dim, 0)
    filled = np.moveaxis(index_fill(x, dim, np.array([-1]), 1), dim, 0)
    assert (copied[0] == pieces[1]).all()
    assert (copied[1] == pieces[2]).all()
    assert (copied[2:] == moved[2:]).all()
    assert (filled[count - 1] == np.ones((), dtype)).all()
    assert (filled[: count - 1] == moved[: count - 1]).all()
    if dtype not in (np.bool_, ml_dtypes.bfloat16):
        added = np.moveaxis(index_add(x, dim, places, source, 2), dim, 0)
        assert (added[1] == moved[1] + 2 * (pieces[0] + pieces[2])).all()
        assert (added[0] == moved[0] + 2 * pieces[1]).all()


@pytest.mark.parametrize("name", ["prod", "mean", "amax", "amin"])
def test_index_reduce(name):
    rng = np.random.default_rng(2)
    x, source = rng.standard_normal((2, 3)), rng.standard_normal((2, 4))
    places = np.array([2, 0, 2, 2])
    for include_self in (True, False):
        found = index_reduce(x, 1, places, source, name, include_self)
        for row in range(2):
            for column in range(3):
                values = source[row, places == column].tolist()
                values += [x[row, column]] if include_self or not values else []
                np.testing.assert_allclose(found[row, column], COMBINE[name](values))


@pytest.mark.parametrize("width", [1, 8, 64])
@pytest.mark.parametrize("kind", ["rounds", "elements", "sparse", "sparse rows"])
def test_rows_add_up(monkeypatch, width, kind):
    if kind.startswith("sparse"):
        pytest.importorskip("scipy")
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.integers(0, 20, 50), np.full(30, 7)])
    source = rng.standard_normal((80, width))
    out = np.ones((25, width))
    expected = out.copy()
    for row, terms in zip(rows, source):
        expected[row] += terms
    sparse = kind.startswith("sparse")
    monkeypatch.setattr(scattering, "SPARSE_ELEMENTS", 1 if sparse else 1 << 30)
    monkeypatch.setattr(scattering, "DENSE", 0 if kind == "sparse rows" else 1 << 30)
    monkeypatch.setattr(scattering, "ROUNDS_WIDTH", 1 if kind == "rounds" else 1 << 30)
    accumulate_rows(out, rows, source)
    np.testing.assert_allclose(out, expected)


@pytest.mark.parametrize("width", [8, 17, 64, 300])
@pytest.mark.parametrize("step", [1, 2])
def test_float_rows_add_up_compiled(monkeypatch, width, step):
    monkeypatch.setattr(scattering, "WORTH_COMPILING", 1)
    monkeypatch.setattr(scattering, "GRAIN", 1)
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.integers(-3, 20, 50), np.full(30, 7)])
    source = rng.standard_normal((80 * step, width)).astype(np.float32)[::step]
    for lowest in (0, -3):  # negative ones are counted from the end
        chosen = np.maximum(rows, lowest)
        out = np.ones((25, width), np.float32)
        expected = out.copy()
        for row, terms in zip(chosen, source):
            expected[row] += terms
        accumulate_rows(out, chosen, source)
        np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)


KEYS = [  # shape of x, key (None: the whole dim; a tuple: random integers; True: a mask of a dim)
    ((4, 3), ((5,),)),
    ((4, 3), (None, (5,))),
    ((4, 3), ((2, 2), (2, 2))),
    ((4, 3), ((2, 1), (3,))),
    ((4, 3, 2), ((2,), None, (2,))),
    ((4, 3, 2), (None, (2,), (2,))),
    ((4, 3, 2), (None, None, (2, 3))),
    ((4, 3, 2), ((), None, (3,))),
    ((4, 3, 2), (None, ())),
    ((4, 3, 2), (True,)),
    ((4, 3, 2), (None, True)),
    ((4, 3, 2), ((1,), True)),
    ((2, 3, 4, 5), ((2,), None, (2,), None)),
    ((2, 3, 4, 5), (None, (2, 1), (3,))),
    ((4, 3), ((0,),)),
]


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("layout", [0, 1, 2, 3])
@pytest.mark.parametrize(("shape", "kinds"), KEYS)
def test_advanced_indexing(relaid, shape, kinds, dtype, layout):
    rng = np.random.default_rng(4)
    x = relaid(numbered(shape, dtype), layout)
    key, numpy_key = [], []
    for size, kind in zip(shape, kinds):
        entry = None
        if kind is True:
            entry = np.arange(size) % 2 == 0
        elif kind is not None:
            entry = rng.integers(-size, size, kind).reshape(kind)
        key.append(entry)
        numpy_key.append(slice(None) if entry is None else entry)
    expected = x[tuple(numpy_key)]
    found = index(x, tuple(key))
    assert found.shape == expected.shape
    assert found.dtype == x.dtype
    assert (found == expected).all()
    assert found.flags.c_contiguous
    assert not np.shares_memory(found, x)
    values = numbered(expected.shape, dtype)
    written = np.array(x)
    written[tuple(numpy_key)] = values
    assert (index_put(x, tuple(key), values) == written).all()
    if dtype == np.float64:
        added = np.array(x)
        np.add.at(added, tuple(numpy_key), values)
        np.testing.assert_allclose(index_put(x, tuple(key), values, True), added)
        np.add.at(added := np.array(x), tuple(numpy_key), 3.0)
        np.testing.assert_allclose(index_put(x, tuple(key), np.array(3.0), True), added)


def test_flat_places():
    x = numbered((2, 3), np.float32)
    assert take(x, np.array([[0, -1], [5, 2]])).tolist() == [[0, 5], [5, 2]]
    assert put(x, np.array([-1, 1]), np.array([9.0, 8.0], "f4")).tolist() == [[0, 8, 2], [3, 4, 9]]
    twice = put(x, np.array([1, 1]), np.array([9.0, 8.0], "f4"), True)
    assert twice.tolist() == [[0, 18, 2], [3, 4, 5]]
    assert take(x, np.array(2)).shape == ()


def test_masks():
    x = numbered((2, 3), np.int64)
    mask = np.array([True, False, True])
    assert masked_select(x, mask).tolist() == [0, 2, 3, 5]
    assert masked_select(x[:1], mask[:, None] & np.ones(3, bool)).tolist() == [0, 1, 2, 0, 1, 2]
    assert masked_scatter(x, mask, np.arange(10, 20)).tolist() == [[10, 1, 11], [12, 4, 13]]
    assert masked_select(np.array(3.0), np.array(True)).tolist() == [3]


def test_nonzero():
    x = np.array([[0, 1], [2, 0]])
    assert nonzero(x).tolist() == [[0, 1], [1, 0]]
    assert nonzero(np.array([0.0, -0.0, np.nan])).tolist() == [[2]]
    assert nonzero(np.array(5)).shape == (1, 0)
    assert nonzero(np.array(0)).shape == (0, 0)
    assert nonzero(np.zeros((2, 0, 3))).shape == (0, 3)
    rng = np.random.default_rng(5)
    many = rng.random((3, 4, 5)) < 0.5
    expected = [list(place) for place in np.ndindex(3, 4, 5) if many[place]]
    assert nonzero(many).tolist() == expected


def test_numbers_count_as_vectors_of_one():
    x = np.array(3.0)
    assert gather(x, 0, np.array(0)) == 3
    assert gather(x, 0, np.array([0, 0])).tolist() == [3, 3]
    assert scatter(x, 0, np.array(0), np.array(5.0)) == 5
    assert index_select(x, 0, np.array([0])).shape == ()
    assert index_add(x, 0, np.array([0]), np.array(5.0)) == 8
    assert index_copy(x, 0, np.array([0]), np.array(5.0)) == 5
    assert index_fill(x, 0, np.array([0]), 5.0) == 5
    assert index_reduce(x, 0, np.array([0]), np.array(5.0), "prod") == 15
    assert index_put(x, (np.array(True),), np.array(4.0)) == 4


X = np.arange(12.0).reshape(3, 4)


def mask(*values):
    return np.array(values, bool)


ERRORS = [  # recorded from PyTorch
    (lambda: gather(X, 0, np.array([[5]])), "index 5 is out of bounds for dimension 0 with size 3"),
    (
        lambda: gather(X, 1, np.array([[-1]])),
        "index -1 is out of bounds for dimension 1 with size 4",
    ),
    (
        lambda: scatter(X, 0, np.array([[5]]), 1),
        "index 5 is out of bounds for dimension 0 with size 3",
    ),
    (lambda: index_select(X, 0, np.array([5])), "index out of range in self"),
    (lambda: index_add(X, 0, np.array([-1]), X[:1]), "index -1 is out of bounds for dimension 0"),
    (lambda: index_copy(X, 0, np.array([5]), X[:1]), r"index_copy_\(\): index 5 is out of bounds"),
    (lambda: index_reduce(X, 0, np.array([5]), X[:1], "mean"), "index out of range in self"),
]
LOOKUPS = [  # recorded from PyTorch
    (
        lambda: index_fill(X, 0, np.array([5]), 1),
        "index 5 is out of bounds for dimension 0 with size 3",
    ),
    (lambda: index(X, (np.array([5]),)), "index 5 is out of bounds for dimension 0 with size 3"),
    (
        lambda: index(X, (None, np.array([-5]))),
        "index -5 is out of bounds for dimension 1 with size 4",
    ),
    (
        lambda: index(X, (None, mask(1, 0))),
        (
            r"The shape of the mask \[2\] at index 0 does not match the shape of the indexed "
            r"tensor \[3, 4\] at index 1"
        ),
    ),
    (
        lambda: index(X, (np.ones((3, 5), bool),)),
        (
            r"The shape of the mask \[3, 5\] at index 1 does not match the shape of the indexed "
            r"tensor \[3, 4\] at index 1"
        ),
    ),
    (
        lambda: index(X, (np.array([0, 1]), np.array([0, 1, 2]))),
        r"could not be broadcast together with shapes \[2\], \[3\]",
    ),
    (
        lambda: index(X, (np.array([0]),) * 3),
        r"too many indices for tensor of dimension 2 \(got 3\)",
    ),
    (lambda: index(np.zeros((0, 3)), (np.array([0]),)), "out of bounds for dimension with size 0"),
    (lambda: take(X, np.array([12])), "tried to access index 12 on a tensor of 12 elements"),
    (lambda: take(X, np.array([-13])), "tried to access index -13 on a tensor of 12 elements"),
    (lambda: take(X[:0], np.array([0])), "tried to take from an empty tensor"),
    (lambda: put(X, np.array([1, 2]), np.array([1.0])), "to have the same number of elements"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_of_both_kinds(call, message):
    with pytest.raises(IndexRangeError, match=message) as caught:
        call()
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(("call", "message"), LOOKUPS)
def test_errors_of_look_ups(call, message):
    with pytest.raises(IndexError, match=message):
        call()


def test_errors_of_values():
    message = (
        r"value tensor of shape \[3\] cannot be broadcast to indexing result of shape \[2, 4\]"
    )
    with pytest.raises(RuntimeError, match=message):
        index_put(X, (np.array([0, 1]),), np.ones(3))
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        masked_scatter(X, X > 0, np.ones(1))


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    tensor = torch.from_numpy
    for _ in range(30):
        shape = tuple(rng.integers(1, 6, 3).tolist())
        dim = int(rng.integers(0, 3))
        x = rng.integers(-3, 4, shape).astype(np.float32)
        places = rng.integers(0, shape[dim], shape)
        source = rng.integers(-3, 4, shape).astype(np.float32)
        t = tensor(x)
        np.testing.assert_array_equal(gather(x, dim, places), t.gather(dim, tensor(places)).numpy())
        for name in COMBINE:
            for own in (True, False):
                expected = t.scatter_reduce(
                    dim, tensor(places), tensor(source), name, include_self=own
                )
                found = scatter(x, dim, places, source, name, own)
                np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
        line = rng.integers(0, shape[dim], 4)
        pieces = np.take(source, line % shape[dim], dim)
        expected = t.index_add(dim, tensor(line), tensor(pieces), alpha=2).numpy()
        np.testing.assert_array_equal(index_add(x, dim, line, pieces, 2), expected)
        key = (None, rng.integers(-shape[1], shape[1], (2, 1)), rng.integers(0, shape[2], 3))
        tensors = [None if k is None else tensor(k) for k in key]
        np.testing.assert_array_equal(index(x, key), torch.ops.aten.index(t, tensors).numpy())
        values = rng.integers(-3, 4, (shape[0], 2, 3)).astype(np.float32)
        expected = torch.ops.aten.index_put(t, tensors, tensor(values), True).numpy()
        np.testing.assert_array_equal(index_put(x, key, values, True), expected)
