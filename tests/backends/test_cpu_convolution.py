"""Convolutions against their definition: geometry, groups, dtypes, blocks, special values."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import convolution as kernels
from ember.backends.cpu import depthwise
from ember.backends.cpu.convolution import convolution, convolution_input, convolution_weight

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=50, derandomize=True)


def places(sizes, out, tap, stride, padding, dilation):
    """The input pixel of a result pixel and a tap, or None in the padding."""
    dims = zip(out, stride, tap, dilation, padding)
    place = tuple(o * s + t * d - p for o, s, t, d, p in dims)
    inside = all(0 <= at < size for at, size in zip(place, sizes))
    return place if inside else None


def pairs(sizes, out_sizes, kernel, stride, padding, dilation):
    """Every (result pixel, tap, input pixel) that a convolution joins."""
    ranges = [range(n) for n in out_sizes], [range(n) for n in kernel]
    for out, tap in product(product(*ranges[0]), product(*ranges[1])):
        place = places(sizes, out, tap, stride, padding, dilation)
        if place is not None:
            yield out, tap, place


def sizes_after(sizes, kernel, stride, padding, dilation):
    dims = zip(sizes, kernel, stride, padding, dilation)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in dims)


def by_definition(x, w, stride, padding, dilation, groups):
    """The convolution by its sum, one product of channels at a time."""
    out_sizes = sizes_after(x.shape[2:], w.shape[2:], stride, padding, dilation)
    y = np.zeros((x.shape[0], w.shape[0], *out_sizes), np.result_type(x, w))
    made, taken = w.shape[0] // groups, w.shape[1]
    for out, tap, place in pairs(x.shape[2:], out_sizes, w.shape[2:], stride, padding, dilation):
        for group in range(groups):
            rows = slice(group * made, (group + 1) * made)
            pixels = x[(slice(None), slice(group * taken, (group + 1) * taken), *place)]
            y[(slice(None), rows, *out)] += pixels @ w[(rows, slice(None), *tap)].T
    return y


def gradients(g, x, w, stride, padding, dilation, groups):
    """What the sum's two derivatives give, by the same loops."""
    dx, dw = np.zeros(x.shape, g.dtype), np.zeros(w.shape, g.dtype)
    made, taken = w.shape[0] // groups, w.shape[1]
    for out, tap, place in pairs(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation):
        for group in range(groups):
            rows = slice(group * made, (group + 1) * made)
            here = (slice(None), slice(group * taken, (group + 1) * taken), *place)
            slopes = g[(slice(None), rows, *out)]
            dx[here] += slopes @ w[(rows, slice(None), *tap)]
            dw[(rows, slice(None), *tap)] += slopes.T @ x[here]
    return dx, dw


@st.composite
def geometries(draw):
    """Sizes of a small convolution in one to three dims."""
    dims = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    kernel, stride, padding, dilation = each(1, 3), each(1, 3), each(0, 2), each(1, 2)
    spans = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding)]
    sizes = tuple(max(1, span) + draw(st.integers(0, 4)) for span in spans)
    groups = draw(st.integers(1, 3))
    taken, made = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    x_shape = (draw(st.integers(0, 3)), groups * taken, *sizes)
    return x_shape, (groups * made, taken, *kernel), stride, padding, dilation, groups


@SETTINGS
@given(geometries(), st.integers(0, 3))
def test_all_three_by_definition(relaid, geometry, layout):
    x_shape, w_shape, *rest = geometry
    rng = np.random.default_rng(0)
    x = relaid(rng.standard_normal(x_shape), layout)
    w = relaid(rng.standard_normal(w_shape), layout)
    y = convolution(x, w, *rest)
    np.testing.assert_allclose(y, by_definition(x, w, *rest), atol=1e-10)
    g = relaid(rng.standard_normal(y.shape), layout)
    dx, dw = gradients(g, x, w, *rest)
    found_dx = convolution_input(g, w, x.shape, *rest)
    found_dw = convolution_weight(g, x, w.shape, *rest)
    np.testing.assert_allclose(found_dx, dx, atol=1e-10)
    np.testing.assert_allclose(found_dw, dw, atol=1e-10)
    assert all(a.flags.c_contiguous for a in (y, found_dx, found_dw))


SHAPES = [  # x, w, stride, padding, dilation, groups: one for each way that is taken
    ((3, 4, 9, 11), (6, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 4, 12, 12), (6, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 40, 9, 8), (8, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 40, 9, 8), (8, 40, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((3, 2, 9, 8), (50, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 6, 9, 8), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((3, 6, 19, 18), (12, 1, 5, 3), (2, 1), (2, 1), (1, 2), 6),
    ((2, 8, 9, 8), (6, 4, 3, 3), (1, 2), (0, 1), (2, 1), 2),
]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int64, np.int32])
@pytest.mark.parametrize("case", SHAPES)
def test_dtypes(case, dtype):
    x_shape, w_shape, *rest = case
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-4, 5, shape).astype(dtype) for shape in (x_shape, w_shape))
    y = convolution(x, w, *rest)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, by_definition(x, w, *rest))
    g = rng.integers(-4, 5, y.shape).astype(dtype)
    dx, dw = gradients(g, x, w, *rest)
    np.testing.assert_array_equal(convolution_input(g, w, x.shape, *rest), dx)
    np.testing.assert_array_equal(convolution_weight(g, x, w.shape, *rest), dw)


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("limit", [1, 2000])
def test_blocks_join(monkeypatch, case, limit):
    x_shape, w_shape, *rest = case
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    g = rng.standard_normal(convolution(x, w, *rest).shape)

    def results():
        yield convolution(x, w, *rest)
        yield convolution_input(g, w, x.shape, *rest)
        yield convolution_weight(g, x, w.shape, *rest)

    whole = list(results())
    monkeypatch.setattr(kernels, "BLOCK_BYTES", limit)
    monkeypatch.setattr(kernels, "BLOCK_COLUMNS", 20)
    monkeypatch.setattr(depthwise, "BLOCK_BYTES", limit)
    monkeypatch.setattr(depthwise, "BAND_BYTES", limit)
    monkeypatch.setattr(depthwise, "BAND_COLUMNS", 5)
    for cut, expected in zip(results(), whole):
        np.testing.assert_allclose(cut, expected, atol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("groups", [1, 4])
def test_special_values_stay_where_they_are_read(value, groups):
    x = np.ones((1, 4, 12, 12), np.float32)
    x[0, 0, 5, 5] = value
    w = np.ones((4, 4 // groups, 3, 3), np.float32)
    y = convolution(x, w, (1, 1), (1, 1), (1, 1), groups)
    spoiled = ~np.isfinite(y)
    expected = np.zeros_like(spoiled)
    expected[0, : 4 if groups == 1 else 1, 4:7, 4:7] = True
    np.testing.assert_array_equal(spoiled, expected)


def test_transposed_with_output_padding():
    # Recorded from PyTorch: conv_transpose1d([1, 2], [1, 10, 100], stride 2, output_padding 1).
    g, w = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]])
    y = convolution_input(g, w, (1, 1, 6), (2,), (0,), (1,), 1)
    assert y.tolist() == [[[1, 10, 102, 20, 200, 0]]]


def test_nothing():
    x, w = np.zeros((0, 2, 5)), np.zeros((3, 2, 3))
    assert convolution(x, w, (1,), (0,), (1,), 1).shape == (0, 3, 3)
    assert convolution_weight(np.zeros((0, 3, 3)), x, w.shape, (1,), (0,), (1,), 1).tolist() == (
        np.zeros((3, 2, 3)).tolist()
    )


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    functions = [torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d]
    for number in range(60):
        dims = number % 3 + 1
        bounds = [(1, 4), (1, 4), (0, 3), (1, 3)]
        drawn = [tuple(rng.integers(*bound, dims).tolist()) for bound in bounds]
        kernel, stride, padding, dilation = drawn
        sizes = tuple(d * (k - 1) + 1 + int(rng.integers(0, 8)) for k, d in zip(kernel, dilation))
        groups = int(rng.integers(1, 4))
        taken, made = int(rng.choice([1, 2, 17])), int(rng.integers(1, 4))
        x = rng.standard_normal((2, groups * taken, *sizes))
        w = rng.standard_normal((groups * made, taken, *kernel))
        tensors = [torch.from_numpy(a).requires_grad_() for a in (x, w)]
        y = functions[dims - 1](*tensors, None, stride, padding, dilation, groups)
        g = rng.standard_normal(y.shape)
        y.backward(torch.from_numpy(g))
        rest = (stride, padding, dilation, groups)
        np.testing.assert_allclose(convolution(x, w, *rest), y.detach().numpy(), atol=1e-9)
        dx = convolution_input(g, w, x.shape, *rest)
        dw = convolution_weight(g, x, w.shape, *rest)
        np.testing.assert_allclose(dx, tensors[0].grad.numpy(), atol=1e-9)
        np.testing.assert_allclose(dw, tensors[1].grad.numpy(), atol=1e-9)
