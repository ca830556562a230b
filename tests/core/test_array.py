"""Arrays, specs and layouts: shapes and strides as PyTorch has them, memory shared with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember
from ember.device import CPU
from ember.dtypes import float32, int64
from ember.kernel.array import contiguous_spec, spec_of
from ember.layout import (
    Layout,
    broadcast_shapes,
    contiguous_strides,
    infer_shape,
    is_contiguous,
    may_overlap,
    view_strides,
    wrap_dim,
)

SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def test_equal_specs_are_one_object():
    assert contiguous_spec((2, 3), float32, CPU) is spec_of((2, 3), (3, 1), float32, CPU)
    assert contiguous_spec((2, 3), float32, CPU) is not contiguous_spec((2, 3), int64, CPU)
    assert ember.ones(2, 3).spec is ember.zeros(2, 3).spec


@SETTINGS
@given(st.lists(st.integers(0, 4), max_size=4))
def test_contiguous_strides(shape):
    strides = contiguous_strides(shape)
    assert is_contiguous(tuple(shape), strides)
    if 0 not in shape:
        assert strides == tuple(s // 8 for s in np.zeros(shape).strides)
    assert not may_overlap(tuple(shape), strides)


@SETTINGS
@given(st.data())
def test_views_of_layouts_agree_with_numpy(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    values = np.arange(np.prod(shape)).reshape(shape).transpose(order)
    numel = values.size
    sizes = [n for n in range(1, numel + 1) if numel % n == 0]
    first = data.draw(st.sampled_from(sizes))
    new = data.draw(st.permutations([first, numel // first, 1]))
    strides = tuple(s // values.itemsize for s in values.strides)
    found = view_strides(values.shape, strides, tuple(new))
    reshaped = values.reshape(new)
    if found is None:
        assert not np.shares_memory(reshaped, values)
    else:
        shown = np.lib.stride_tricks.as_strided(values, new, [8 * s for s in found])
        assert shown.tolist() == reshaped.tolist()


@pytest.mark.oracle
@SETTINGS
@given(st.data())
def test_strides_of_results_are_pytorch_s(data):
    torch = pytest.importorskip("torch")
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    other = data.draw(st.permutations(range(len(shape))))
    cut = data.draw(st.integers(0, len(shape) - 1))

    def run(framework):
        x = framework.ones([shape[d] for d in np.argsort(order)]).permute(tuple(order))
        y = framework.ones([shape[d] for d in np.argsort(other)]).permute(tuple(other))
        made = [x.exp(), x + y, y * x, x + y[(0,) * cut], x.clone(), framework.where(x > y, x, y)]
        made += [
            x.sum(0),
            x.softmax(0),
            framework.zeros_like(x),
            x.contiguous(),
            x.double(),
            x[0:1] + y,
        ]
        return [(tuple(m.shape), m.stride()) for m in made]

    assert run(ember) == run(torch)


def test_layouts():
    layout = Layout((2, 3), (3, 1), 5)
    assert layout.selected(1, 2) == Layout((2,), (3,), 7)
    assert layout.sliced(1, 1, 2) == Layout((2, 2), (3, 1), 6)
    assert layout.permuted((1, 0)) == Layout((3, 2), (1, 3), 5)
    assert Layout((2, 1), (1, 1)).expanded((4, 2, 3)) == Layout((4, 2, 3), (0, 1, 0))
    assert layout.extent() == (5, 11) and Layout((0, 3), (3, 1), 5).extent() == (5, 5)
    assert may_overlap((2,), (0,)) and may_overlap((3, 3), (1, 1)) and not may_overlap((1,), (0,))


def test_shapes():
    assert broadcast_shapes((2, 1), (3,), ()) == (2, 3) and broadcast_shapes((0,), (1,)) == (0,)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match .* b \(3\)"):
        broadcast_shapes((2, 2), (2, 3))
    assert infer_shape((2, -1), 6) == (2, 3) and infer_shape((-1,), 0) == (0,)
    with pytest.raises(RuntimeError, match="cannot reshape tensor of 0 elements"):
        infer_shape((0, -1), 0)
    assert wrap_dim(-1, 3) == 2 and wrap_dim(0, 0) == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
        wrap_dim(3, 3)


def test_memory_shared_with_numpy():
    nd = np.arange(6.0).reshape(2, 3)
    x = ember.from_numpy(nd)
    x[0, 0] = 9
    nd[1, 2] = 7
    assert nd[0, 0] == 9 and x[1, 2].item() == 7 and x.numpy()[0, 0] == 9
    assert np.shares_memory(x.numpy(), nd) and np.shares_memory(x.t()[1].numpy(), nd)
    y = ember.from_numpy(nd.T[::2])
    assert y.stride() == (2, 3) and y.tolist() == nd.T[::2].tolist()
    z = ember.tensor(nd)
    nd[:] = 0
    assert z[1, 2].item() == 7
    with pytest.raises(ValueError, match="At least one stride in the given numpy"):
        ember.from_numpy(nd[::-1])
    with pytest.raises(TypeError, match="can't convert np.ndarray of type"):
        ember.from_numpy(np.array(["a"]))


def test_sizes():
    shape = ember.ones(2, 3).shape
    assert shape == (2, 3) and shape.numel() == 6 and repr(shape) == "torch.Size([2, 3])"
    assert isinstance(shape[:1], ember.Size) and isinstance(shape + (4,), ember.Size)
    a, b = shape
    assert (a, b) == (2, 3) and hash(shape) == hash((2, 3))
