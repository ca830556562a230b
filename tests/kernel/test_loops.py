"""Compiled kernels, form by form, against the evaluation of their formulas with NumPy."""

import numpy as np
import pytest

from ember.backends.cpu.native import builtin
from ember.kernel.loops import ACROSS, ALONG, FLAT, Kernel, Operand, kernel_text, scratch_elements
from ember.scalar import primitives as p
from ember.scalar.evaluate import compile_numpy
from ember.scalar.expr import make, var
from ember.scalar.lowering import BOOLEAN

X, Y, Z = var("x"), var("y"), var("z")
SIZES = [1, 7, 8, 15, 16, 17, 31, 64, 1000]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.5, -2.5, 0.5, 1e30]
NUMPY = {"float": np.float32, "double": np.float64}
LANES = [16, 8, 4]


def values(size, dtype, seed):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=size).astype(dtype) * 3
    found[: min(size, len(SPECIAL))] = np.roll(SPECIAL, seed)[: min(size, len(SPECIAL))]
    return found


def geometry(*numbers):
    return np.array(numbers, np.int64)


def scratch_for(kernel, row):
    return np.empty(scratch_elements(kernel, row), NUMPY[kernel.scalar])


EXACT = {
    "chain": (X * 2 + Y) / (Z - 1),
    "choices": p.where(X > Y, p.maximum(X, Z), p.minimum(Y, Z)) * 0.5,
    "roots": make("sqrt", make("abs", X)) + make("rsqrt", make("abs", Y)) - make("reciprocal", Z),
    "steps": make("floor", X) + make("ceil", Y) * make("trunc", Z) - make("round", X),
    "logic": p.where((X < Y) & ~(Y >= Z) | p.ne(X, Z), -X, Z),
    "missing": p.where(p.isnan(X), Y, X) + Z,
    "truth": p.logical_xor(X <= Y, p.eq(Y, Z)),
    "kinds": p.where(p.isinf(X), 1.0, p.where(p.isfinite(Y), Z, 2.0)),
    "signs": make("sign", X) * make("copysign", Y, Z),
    "truths": p.where(X > 0, Y > Z, Z > X),
    "bits": make("signbit", X) & (Y > 0),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("lanes", LANES)
def test_flat_bits_are_those_of_the_evaluation(name, scalar, lanes):
    root, dtype = EXACT[name], NUMPY[scalar]
    truth = root.op in BOOLEAN or name == "truths"
    out_element = "bool" if truth else scalar
    kernel = Kernel(
        (root,), tuple(Operand(n, scalar) for n in "xyz"), (out_element,), scalar, lanes, FLAT
    )
    function = builtin(kernel_text(kernel))
    reference = compile_numpy((root,), ["x", "y", "z"], dtype)
    for size in SIZES:
        arrays = [values(size, dtype, seed) for seed in range(3)]
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(*arrays))
        out = np.zeros(size + 1, expected.dtype)
        function(*arrays, out, geometry(size, 1), scratch_for(kernel, size), 0, size)
        np.testing.assert_array_equal(out[:size], expected)
        assert out[size] == 0  # nothing is written beyond the end


def test_flat_kernels_do_a_part_of_the_range():
    kernel = Kernel((X + 1,), (Operand("x", "float"),), ("float",), "float", 16, FLAT)
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    builtin(kernel_text(kernel))(x, out, geometry(100, 1), np.empty(0, np.float32), 37, 71)
    expected = np.zeros(100, np.float32)
    expected[37:71] = x[37:71] + 1
    np.testing.assert_array_equal(out, expected)


def test_numbers_masks_and_single_elements_are_operands():
    root = p.where(var("mask"), X * var("k"), var("one"))
    operands = (
        Operand("mask", "bool"),
        Operand("x", "float"),
        Operand("k"),
        Operand("one", "float", False),
    )
    kernel = Kernel((root,), operands, ("float",), "float", 16, FLAT)
    x, mask, out = values(100, np.float32, 0), np.arange(100) % 3 == 0, np.empty(100, np.float32)
    one = np.array(7, np.float32)
    function = builtin(kernel_text(kernel))
    function(mask, x, one, out, 0.1, geometry(100, 1), np.empty(0, np.float32), 0, 100)
    np.testing.assert_array_equal(out, np.where(mask, x * np.float32(0.1), np.float32(7)))


def test_half_precision_is_read_and_rounded_at_the_edges_only():
    import ml_dtypes

    for element, dtype in (("half", np.float16), ("bfloat", ml_dtypes.bfloat16)):
        kernel = Kernel((X * 3 + Y,), (Operand("x", element), Operand("y", element)), (element,),
                        "float", 16, FLAT)  # fmt: skip
        with np.errstate(all="ignore"):
            x, y = (values(1000, np.float32, seed).astype(dtype) for seed in range(2))
        out = np.empty(1000, dtype)
        function = builtin(kernel_text(kernel))
        function(x, y, out, geometry(1000, 1), np.empty(0, np.float32), 0, 1000)
        with np.errstate(all="ignore"):
            expected = (x.astype(np.float32) * 3 + y.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))


SOFTMAX = p.exp(X - p.stop(p.row_max(X))) / p.row_sum(p.exp(X - p.stop(p.row_max(X))))
MEAN = p.row_mean(X)
NORM = (X - MEAN) * p.rsqrt(p.row_mean((X - MEAN) * (X - MEAN)) + 1e-5) * var("w") + var("b")
SPREAD = X - make("row_min", X) * 0.5 + p.row_size()
ROWS = {"softmax": SOFTMAX, "norm": NORM, "spread": SPREAD}


def row_reference(root, arrays, axes):
    wide = [a.astype(np.float64) for a in arrays]
    return compile_numpy((root,), ["x", "w", "b"], np.float64, axes)(*wide)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("length", [1, 3, 16, 17, 33, 70, 257])
def test_along_gives_each_row_its_own_program(name, lanes, length):
    root = ROWS[name]
    used = "xwb" if name == "norm" else "x"
    kernel = Kernel((root,), tuple(Operand(n, "float") for n in used), ("float",), "float", lanes,
                    ALONG, 2)  # fmt: skip
    rng = np.random.default_rng(length)
    x = rng.normal(size=(3, 4, length)).astype(np.float32)
    w, b = rng.normal(size=(2, length)).astype(np.float32)
    out = np.zeros((3, 4, length), np.float32)
    full, weight = [1, 0, 4 * length, length], [1, 0, 0, 0]
    table = geometry(length, 1, 3, 4, *full, *(weight * (len(used) - 1)), *full)
    given = (x, w, b)[: len(used)]
    function = builtin(kernel_text(kernel))
    function(*given, out, table, scratch_for(kernel, length), 0, 12)
    np.testing.assert_allclose(out, row_reference(root, (x, w, b), (2,)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(2, 3, 20), (5, 2, 16), (1, 4, 9), (3, 1, 33)])
def test_along_walks_two_row_dims(name, shape):
    """Statistics of a channel: over the batch and the pixels, with a weight a channel."""
    root = ROWS[name]
    batch, channels, pixels = shape
    used = "xwb" if name == "norm" else "x"
    operands = tuple(Operand(n, "float", n == "x") for n in used)
    kernel = Kernel((root,), operands, ("float",), "float", 16, ALONG, 1)
    rng = np.random.default_rng(pixels)
    x = rng.normal(size=shape).astype(np.float32)
    w, b = rng.normal(size=(2, channels)).astype(np.float32)
    out = np.zeros(shape, np.float32)
    full, weight = [1, channels * pixels, pixels], [0, 0, 1]
    table = geometry(pixels, batch, channels, *full, *(weight * (len(used) - 1)), *full)
    given = (x, w, b)[: len(used)]
    function = builtin(kernel_text(kernel))
    function(*given, out, table, scratch_for(kernel, batch * pixels), 0, channels)
    arrays = (x, w[:, None], b[:, None])
    np.testing.assert_allclose(out, row_reference(root, arrays, (0, 2)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("columns", [1, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("lanes", LANES)
def test_across_runs_rows_side_by_side(name, columns, lanes):
    """The row is the middle dim; the vectors lie over the last one."""
    root = ROWS[name]
    batch, length = 3, 11
    used = "xwb" if name == "norm" else "x"
    operands = tuple(Operand(n, "float", n == "x") for n in used)
    kernel = Kernel((root,), operands, ("float",), "float", lanes, ACROSS, 2)
    rng = np.random.default_rng(columns)
    x = rng.normal(size=(batch, length, columns)).astype(np.float32)
    w, b = rng.normal(size=(2, length)).astype(np.float32)
    out = np.zeros_like(x)
    full, weight = [columns, 0, length * columns, 1], [1, 0, 0, 0]
    table = geometry(length, 1, batch, columns, *full, *(weight * (len(used) - 1)), *full)
    given = (x, w, b)[: len(used)]
    blocks = -(-columns // lanes)
    function = builtin(kernel_text(kernel))
    function(*given, out, table, scratch_for(kernel, length), 0, batch * blocks)
    arrays = (x, w[:, None], b[:, None])
    np.testing.assert_allclose(out, row_reference(root, arrays, (1,)), rtol=2e-5, atol=2e-6)


def test_nan_and_infinity_spread_over_their_own_row_only():
    kernel = Kernel((SOFTMAX,), (Operand("x", "float"),), ("float",), "float", 16, ALONG, 1)
    x = np.zeros((4, 40), np.float32)
    x[1, 35], x[2, 3], x[3, 39] = np.nan, np.inf, -np.inf
    out = np.zeros_like(x)
    table = geometry(40, 1, 4, 1, 0, 40, 1, 0, 40)
    builtin(kernel_text(kernel))(x, out, table, scratch_for(kernel, 40), 0, 4)
    np.testing.assert_allclose(out[0], 1 / 40, rtol=1e-6)
    assert np.isnan(out[1]).all()
    assert np.isnan(out[2]).any()
    assert out[3, 39] == 0
    np.testing.assert_allclose(out[3, :39], 1 / 39, rtol=1e-6)
