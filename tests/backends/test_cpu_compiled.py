"""Compiled loops give the very bits that the evaluation with NumPy gives, for every formula they
take."""

import ctypes

import numpy as np
import pytest

import ember as torch
from ember.backends.cpu import compiled
from ember.backends.cpu.compiled import LARGE
from ember.core.formula import FormulaOp
from ember.core.registry import OPS
from ember.scalar import primitives as p
from ember.scalar.evaluate import compile_numpy
from ember.scalar.expr import make, var
from ember.scalar.llvm_text import KNOWN, Operand, loop_text, supported

X, Y, Z = var("x"), var("y"), var("z")
SIZES = [1, 7, 8, 15, 16, 17, 31, 64, 1000]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.5, -2.5, 0.5, 1e30]


def values(size, dtype, seed):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=size).astype(dtype) * 3
    found[: min(size, len(SPECIAL))] = np.roll(SPECIAL, seed)[: min(size, len(SPECIAL))]
    return found


FORMULAS = {
    "chain": (X * 2 + Y) / (Z - 1),
    "choices": p.where(X > Y, p.maximum(X, Z), p.minimum(Y, Z)) * 0.5,
    "roots": make("sqrt", make("abs", X)) + make("rsqrt", make("abs", Y)) - make("reciprocal", Z),
    "steps": make("floor", X) + make("ceil", Y) * make("trunc", Z) - make("round", X),
    "logic": p.where((X < Y) & ~(Y >= Z) | p.ne(X, Z), -X, Z),
    "missing": p.where(p.isnan(X), Y, X) + Z,
    "truth": p.logical_xor(X <= Y, p.eq(Y, Z)),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(("scalar", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_bits_are_those_of_the_evaluation(name, scalar, dtype):
    root = FORMULAS[name]
    operands = [Operand(n, "array") for n in "xyz"]
    assert supported((root,), operands)
    kernel = compiled._kernel(
        loop_text((root,), operands, scalar, 64 // np.dtype(dtype).itemsize), [ctypes.c_void_p] * 4
    )
    reference = compile_numpy((root,), ["x", "y", "z"], dtype)
    for size in SIZES:
        arrays = [values(size, dtype, seed) for seed in range(3)]
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(*arrays))
        out = np.empty(size, expected.dtype)
        kernel(size, *(a.ctypes.data for a in arrays), out.ctypes.data)
        np.testing.assert_array_equal(out, expected)
        assert (
            np.array_equal(np.signbit(out), np.signbit(expected))
            or out.dtype == bool
            or np.isnan(out).any()
        )


def test_numbers_and_masks_are_operands():
    root = p.where(var("mask"), X * var("k"), X)
    operands = [Operand("mask", "bool"), Operand("x", "array"), Operand("k", "number")]
    assert supported((root,), operands)
    kernel = compiled._kernel(
        loop_text((root,), operands, "float", 16),
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p],
    )
    x, mask = values(100, np.float32, 0), np.arange(100) % 3 == 0
    out = np.empty(100, np.float32)
    kernel(100, mask.ctypes.data, x.ctypes.data, 0.1, out.ctypes.data)
    np.testing.assert_array_equal(out, np.where(mask, x * np.float32(0.1), x))


@pytest.mark.parametrize(
    "root", [make("exp", X), p.where(X, X, X), (X > Y) + Z, p.where(X > Y, X > Y, Y > Z)]
)
def test_what_cannot_be_emitted_is_refused(root):
    assert not supported((root,), [Operand(n, "array") for n in "xyz"])


def test_every_known_primitive_is_one():
    assert KNOWN - {"var", "const"} <= {*p.TABLE}


def large(count, dtype=torch.float32):
    torch.manual_seed(count)
    return [torch.randn(LARGE + 5, dtype=dtype) for _ in range(count)]


def twice(function):
    """The result of the second call, which is compiled, beside that of the first, which is not."""
    return function(), function()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ops_of_large_tensors_do_not_change_when_compiled(dtype):
    a, b, c = large(3, dtype)
    for function in (
        lambda: torch.addcmul(a, b, c, value=0.3),
        lambda: torch.lerp(a, b, 0.7),
        lambda: torch.clamp(a, -0.5, 0.5),
        lambda: torch.nn.functional.leaky_relu(a, 0.1),
        lambda: torch.nn.functional.hardswish(b),
        lambda: torch.sub(a, b, alpha=3),
    ):
        first, second = twice(function)
        assert torch.equal(first, second)
        assert first.dtype is second.dtype


def test_writes_and_several_results_are_compiled_alike():
    assert isinstance(OPS["lerp"], FormulaOp)
    states = []
    for _ in range(2):
        torch.manual_seed(0)
        parameter = torch.nn.Parameter(torch.randn(LARGE))
        optimizer = torch.optim.AdamW([parameter], lr=1e-2)
        for _ in range(4):
            optimizer.zero_grad()
            (parameter * parameter).sum().backward()
            optimizer.step()
        states.append((parameter.detach(), optimizer.state[parameter]["exp_avg_sq"]))
    small = torch.nn.Parameter(states[0][0].new_empty(LARGE // 2))
    torch.manual_seed(0)
    small.data.copy_(torch.randn(LARGE)[: LARGE // 2])
    optimizer = torch.optim.AdamW([small], lr=1e-2)
    for _ in range(4):
        optimizer.zero_grad()
        (small * small).sum().backward()
        optimizer.step()
    for parameter, average in states:  # half as many elements are evaluated, never compiled
        assert torch.equal(parameter[: LARGE // 2], small.detach())
        assert torch.equal(average[: LARGE // 2], optimizer.state[small]["exp_avg_sq"])
