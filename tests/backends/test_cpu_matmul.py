"""Matrix products: sizes, layouts, integers that wrap, no elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu.matmul import dot, matmul, outer, vdot

pytestmark = pytest.mark.usefixtures("ignored_flags")
SETTINGS = settings(deadline=None, max_examples=60, derandomize=True)
SIZE = st.integers(0, 6)


def product(a, b):
    """a @ b of two matrices by its definition, in Python integers or floats."""
    rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
    return [
        [sum(a[i, k].item() * b[k, j].item() for k in range(inner)) for j in range(columns)]
        for i in range(rows)
    ]


@SETTINGS
@given(SIZE, SIZE, SIZE, st.sampled_from(["f4", "f8", "c8", "c16"]), st.integers(0, 3))
def test_matrices(relaid, rows, inner, columns, dtype, layout):
    rng = np.random.default_rng([rows, inner, columns])
    a = relaid(rng.standard_normal((rows, inner)).astype(dtype), layout)
    b = relaid(rng.standard_normal((inner, columns)).astype(dtype), (layout + 1) % 4)
    result = matmul(a, b)
    assert result.dtype == a.dtype
    assert result.flags.c_contiguous
    expected = np.array(product(a, b), dtype).reshape(rows, columns)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "i8"])
@pytest.mark.parametrize("size", [3, 12])
@pytest.mark.parametrize("large", [False, True])
def test_integers_wrap(dtype, size, large):
    rng = np.random.default_rng(size)
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if large else (0, 9)
    a = rng.integers(low, high, (size, size), dtype, endpoint=True)
    b = rng.integers(low, high, (size, size), dtype, endpoint=True)
    span = int(limits.max) - int(limits.min) + 1
    expected = [[(v - limits.min) % span + limits.min for v in row] for row in product(a, b)]
    result = matmul(a, b)
    assert result.dtype == dtype
    assert result.tolist() == expected


def test_integers_at_the_edge_of_exact_floats():
    # 2^53 + 1 is no float64; the products must not go through it.
    a = np.array([[2**53 + 1] + [0] * 31] * 32)
    b = np.eye(32, dtype=np.int64)
    assert matmul(a, b).tolist() == a.tolist()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((3,), (3,)),
        ((5, 2, 3), (3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((0, 2, 3), (3, 4)),
        ((5, 2, 0), (0, 4)),
        ((5, 2, 1), (1, 4)),
        ((2, 3), (7, 3, 4)),
    ],
)
def test_stacks_broadcast(left, right):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    stacked_a = a[None, :] if a.ndim == 1 else a
    stacked_b = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(stacked_a.shape[:-2], stacked_b.shape[:-2])
    stacked_a = np.broadcast_to(stacked_a, (*batch, *stacked_a.shape[-2:]))
    stacked_b = np.broadcast_to(stacked_b, (*batch, *stacked_b.shape[-2:]))
    expected = np.zeros((*batch, stacked_a.shape[-2], stacked_b.shape[-1]))
    for place in np.ndindex(batch):
        expected[place] = np.reshape(
            product(stacked_a[place], stacked_b[place]), expected.shape[len(batch) :]
        )
    expected = expected[..., 0] if b.ndim == 1 else expected
    expected = expected[..., 0] if b.ndim == 1 and a.ndim == 1 else expected
    expected = expected[..., 0, :] if a.ndim == 1 and b.ndim > 1 else expected
    result = matmul(a, b)
    assert isinstance(result, np.ndarray)
    assert result.shape == (() if a.ndim == b.ndim == 1 else expected.shape)
    np.testing.assert_allclose(result, np.reshape(expected, result.shape), rtol=1e-12)


def test_results_of_permuted_stacks_are_dense():
    a = np.ones((2, 5, 3, 4)).transpose(0, 2, 1, 3)
    b = np.ones((2, 6, 3, 4)).transpose(0, 2, 3, 1)
    assert matmul(a, b).flags.c_contiguous


def test_vectors():
    a, b = np.array([1 + 2j, 3j]), np.array([2.0, 1j])
    assert dot(a, b) == (1 + 2j) * 2 + 3j * 1j
    assert vdot(a, b) == (1 - 2j) * 2 + -3j * 1j
    assert outer(np.array([1, 2]), np.array([3, 4, 5])).tolist() == [[3, 4, 5], [6, 8, 10]]


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    for dtype in (np.float32, np.float64, np.int64, np.uint8, np.int16):
        for left, right in [
            ((7, 8), (8, 9)),
            ((4, 3, 7, 8), (3, 8, 2)),
            ((8,), (2, 8, 3)),
            ((2, 0), (0, 3)),
        ]:
            a = rng.integers(-9, 9, left).astype(dtype)
            b = rng.integers(-9, 9, right).astype(dtype)
            expected = torch.matmul(torch.from_numpy(a), torch.from_numpy(b)).numpy()
            np.testing.assert_array_equal(matmul(a, b), expected)
