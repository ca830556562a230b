"""Indexing against NumPy: basic, advanced, boolean, mixed; reading, writing, gradients."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ember

SETTINGS = settings(max_examples=80, deadline=None, derandomize=True, database=None)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


@st.composite
def keys(draw, advanced):
    """(an array, an index of it)."""
    shape = draw(SHAPES)
    parts, has_lists, left = [], False, len(shape)
    together = draw(st.integers(1, 3))  # the length of index lists
    for size in shape:
        kinds = ["int", "slice", "slice", "all"] + (["list", "array", "mask"] if advanced else [])
        kind = draw(st.sampled_from(kinds))
        if draw(st.integers(0, 5)) == 0:
            parts.append(None)
        if kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            parts.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
        elif kind == "all":
            parts.append(slice(None))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[: min(together, size)] = True
            assume(mask.sum() in (1, together))
            parts.append(mask)
            has_lists = True
        else:
            entries = st.integers(-size, size - 1)
            found = draw(st.lists(entries, min_size=together, max_size=together))
            parts.append(found if kind == "list" else np.array(found))
            has_lists = True
    cut = draw(st.integers(0, left))
    if draw(st.booleans()):
        parts = parts[:cut] + [Ellipsis] if cut < len(parts) else parts
    assume(has_lists or not advanced)
    ints = [i for i, p in enumerate(parts) if isinstance(p, int)]
    if has_lists and ints:  # NumPy counts ints among the lists, PyTorch selects first
        parts = [slice(p, p + 1 or None) if isinstance(p, int) else p for p in parts]
    values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    return values, tuple(parts)


def as_key(torch, key):
    return tuple(torch.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@SETTINGS
@given(keys(advanced=False))
def test_basic_reads_are_views(case):
    values, key = case
    tensor = ember.tensor(values)
    found = tensor[key]
    assert found.tolist() == values[key].tolist() and tuple(found.shape) == values[key].shape
    assert found._is_view()


@SETTINGS
@given(keys(advanced=True))
def test_advanced_reads(case):
    values, key = case
    found = ember.tensor(values)[as_key(ember, key)]
    assert found.tolist() == values[key].tolist() and tuple(found.shape) == values[key].shape


@SETTINGS
@given(st.booleans().flatmap(lambda advanced: keys(advanced)), st.booleans())
def test_writes(case, number):
    values, key = case
    tensor = ember.tensor(values)
    expected = values.copy()
    shape = values[key].shape
    given_values = 0.5 if number else -np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    expected[key] = given_values
    tensor[as_key(ember, key)] = given_values if number else ember.tensor(given_values)
    assert tensor.tolist() == expected.tolist() and tensor._version == 1


@SETTINGS
@given(st.booleans().flatmap(lambda advanced: keys(advanced)))
def test_gradients_of_reads(case):
    values, key = case
    tensor = ember.tensor(values, requires_grad=True)
    found = tensor[as_key(ember, key)]
    weights = np.arange(1.0, 1 + found.numel()).reshape(tuple(found.shape))
    found.backward(ember.tensor(weights))
    expected = np.zeros_like(values)
    np.add.at(expected, key, weights)
    assert tensor.grad.tolist() == expected.tolist()


@SETTINGS
@given(st.booleans().flatmap(lambda advanced: keys(advanced)))
def test_gradients_of_writes(case):
    values, key = case
    source = ember.tensor(values, requires_grad=True)
    tensor = source * 1
    number = ember.tensor(2.0, dtype=ember.float64, requires_grad=True)
    tensor[as_key(ember, key)] = number
    tensor.sum().backward()
    kept = np.ones_like(values)
    kept[key] = 0
    assert source.grad.tolist() == kept.tolist()
    assert number.grad.item() == values[key].size  # a place written twice counts twice


@pytest.mark.oracle
@SETTINGS
@given(st.booleans().flatmap(lambda advanced: keys(advanced)))
def test_strides_and_values_of_pytorch(case):
    torch = pytest.importorskip("torch")
    values, key = case
    found, other = (m.tensor(values)[as_key(m, key)] for m in (ember, torch))
    assert found.tolist() == other.tolist() and found.stride() == other.stride()


@SETTINGS
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_broadcasting(shapes):
    first, second = shapes.input_shapes
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(float) for shape in (first, second))
    x, y = ember.tensor(a, requires_grad=True), ember.tensor(b, requires_grad=True)
    z = x * y
    assert tuple(z.shape) == shapes.result_shape and z.tolist() == (a * b).tolist()
    z.sum().backward()
    spread_a, spread_b = (np.broadcast_to(v, shapes.result_shape) for v in (a, b))
    for tensor, own, other in ((x, a, spread_b), (y, b, spread_a)):
        lead = tuple(range(other.ndim - own.ndim))
        total = other.sum(lead)
        dims = tuple(d for d in range(own.ndim) if own.shape[d] == 1 and total.shape[d] != 1)
        assert tensor.grad.tolist() == total.sum(dims, keepdims=True).reshape(own.shape).tolist()


CASES = {
    "scalar mask": lambda t, x: (x[True], x[False], x[t.tensor(True)]),
    "matrix mask": lambda t, x: x[t.tensor([[True, False, True], [False, True, False]])],
    "mask of two dims and a slice": lambda t, x: x.expand(2, 2, 3)[
        t.tensor([[True, False], [True, True]]), 1:
    ],
    "lists apart": lambda t, x: x.expand(2, 2, 3)[[0, 1], :, [1, 2]],
    "broadcast lists": lambda t, x: x[t.tensor([[0], [1]]), t.tensor([2, 0])],
    "empty list": lambda t, x: x[[]],
    "zero-dim index": lambda t, x: x[t.tensor(1)],
    "NumPy ints": lambda t, x: (x[np.int64(1)], x[np.array([1, 0])]),
    "range": lambda t, x: x[:, range(2)],
    "int and list": lambda t, x: x[1, [0, 2]],
    "list and int": lambda t, x: x[[0, 1], 2],
    "int, slice and list": lambda t, x: x.expand(4, 2, 3)[1, :, [0, 2]],
    "list, slice and int": lambda t, x: x.expand(4, 2, 3)[[1, 0], :, 2],
    "newaxis and list": lambda t, x: x[None, [0, 1], None],
    "ellipsis and list": lambda t, x: x[..., [0, 2]],
    "uint8 as index type int8": lambda t, x: x[:, t.tensor([0, 1], dtype=t.int32)],
    "negative": lambda t, x: x[-1, [-1, -2]],
    "repeated": lambda t, x: x[[0, 0, 0]],
}


def shown(found):
    if isinstance(found, tuple):
        return tuple(map(shown, found))
    return tuple(found.shape), found.tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_cases_of_pytorch(name):
    torch = pytest.importorskip("torch")
    found, other = (shown(CASES[name](m, m.arange(6.0).reshape(2, 3))) for m in (ember, torch))
    assert found == other


def test_repeated_places_written_and_added(torch):
    x = torch.zeros(3)
    x.index_put_((torch.tensor([0, 0, 2]),), torch.tensor([1.0, 1.0, 5.0]), accumulate=True)
    assert x.tolist() == [2, 0, 5]
    x[torch.tensor([1, 1])] += 1
    assert x.tolist() == [2, 1, 5]
    y = torch.arange(6).reshape(2, 3)
    y[y > 2] = 0
    y[:, [0, 2]] = torch.tensor([[7], [8]])
    assert y.tolist() == [[7, 1, 7], [8, 0, 8]]
    y[0] = y[1].clone()
    y[..., 1] = 9
    assert y.tolist() == [[8, 9, 8], [8, 9, 8]]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([[0, 1], [1, 0]], [1.0, 4.0]),
        ([[0, 1]], [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]),
        ([[True, False, True]], [[0.0, 1.0, 2.0, 3.0], [8.0, 9.0, 10.0, 11.0]]),
        ([[0, 1], [1]], [1.0, 5.0]),
        ([slice(0, 1), 0], [0.0]),
        ([..., 0], [0.0, 4.0, 8.0]),
        ([0, 2], [[0.0, 1.0, 2.0, 3.0], [8.0, 9.0, 10.0, 11.0]]),
    ],
)
def test_lists_of_sequences_are_tuples(torch, key, expected):
    x = torch.arange(12.0).reshape(3, 4)
    assert x[key].tolist() == expected
    x[key] = -1.0
    assert bool((x[key] == -1).all())
    both = [torch.tensor([0]), torch.tensor([1])]
    assert torch.arange(12.0).reshape(3, 4)[both].tolist() == [1.0]


def test_lists_that_are_tuples_are_deprecated():
    with pytest.warns(UserWarning, match="non-tuple sequence for multidimensional indexing"):
        ember.zeros(2, 2)[[[0, 1], [1, 0]]]
