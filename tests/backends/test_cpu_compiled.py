"""Ops whose formulas run compiled: the same results, whatever the layout, the dtype and the
threads."""

import math
import subprocess
import sys

import numpy as np
import pytest

import ember as torch
from ember.backends.cpu import compiled, native, threads
from ember.backends.cpu.compiled import LARGE
from ember.core.formula import FormulaOp
from ember.core.registry import OPS
from ember.nn import functional as F
from ember.scalar import primitives as p
from ember.scalar.expr import make, var
from ember.scalar.lowering import supported

X, Y, Z = var("x"), var("y"), var("z")


@pytest.mark.parametrize(
    ("root", "scalar"),
    [
        (p.lgamma(X), "float"),
        (p.exp(X), "double"),
        (make("pow", X, Y), "float"),
        ((X > Y) + Z, "float"),
        (p.where(X, X, X), "float"),
        (p.where(X > Y, X > Y, Z), "float"),
        (X + 1j, "float"),
    ],
)
def test_what_cannot_be_lowered_is_refused(root, scalar):
    assert not supported((root,), frozenset(), scalar)


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


CASES = {
    "softmax": (lambda x: F.softmax(x, -1), (64, 100)),
    "softmax of channels": (lambda x: F.softmax(x, 1), (4, 10, 30, 9)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (64, 100)),
    "layer_norm": (lambda x: F.layer_norm(x, (100,), x[0], x[1]), (64, 100)),
    "layer_norm of two dims": (lambda x: F.layer_norm(x, (10, 9)), (64, 10, 9)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (16, 3, 20, 10)),
    "batch_norm of rows": (lambda x: F.batch_norm(x, None, None, training=True), (256, 40)),
    "group_norm": (lambda x: F.group_norm(x, 2), (16, 4, 20, 10)),
    "gelu": (F.gelu, (200, 100)),
    "silu of a transposed": (lambda x: F.silu(x.t()), (200, 100)),
    "strided": (lambda x: torch.sigmoid(x[:, ::2]) * 2, (200, 200)),
    "broadcast": (lambda x: torch.addcmul(x, x[0], x[:, :1], value=2.0), (200, 100)),
    "permuted": (lambda x: F.softplus(x.permute(2, 0, 1)), (20, 30, 40)),
    "power": (lambda x: x.abs() ** 0.5 * 3 + x**3, (200, 100)),
    "sine": (lambda x: torch.sin(x * 32) * 2, (200, 100)),
    "expanded": (lambda x: F.softmax(x[:1].expand(64, 100), -1), (64, 100)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 3])
def test_values_and_gradients_are_those_of_float64(name, count):
    function, shape = CASES[name]
    before = threads.count()
    threads.set_count(count)
    try:
        torch.manual_seed(0)
        wide = torch.randn(shape).double().requires_grad_()
        x = wide.detach().float().requires_grad_()
        weights = torch.randn(function(wide).shape, dtype=torch.float64)
        exact, found = function(wide), function(x)
        (exact * weights).sum().backward()
        (found * weights.float()).sum().backward()
    finally:
        threads.set_count(before)
    np.testing.assert_allclose(found.detach().numpy(), exact.detach().numpy(), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "broadcast"])
def test_half_precision_is_float32_rounded_once(dtype, name):
    function, shape = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    found, exact = function(x), function(x.float())
    assert found.dtype is dtype
    step = torch.finfo(dtype).eps
    torch_error = ((found.float() - exact).abs() / exact.abs().clamp(min=1e-3)).max().item()
    assert torch_error <= step


def test_a_kernel_runs_from_its_object_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBER_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_builtins", {})
    x = torch.linspace(-3, 3, 3 * LARGE // 2)
    first = run_gelu(x)
    (kept,) = (tmp_path / "kernels").glob("*.o")
    whole = kept.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
        kept.write_bytes(damaged)
        native._builtins.clear()
        assert torch.equal(run_gelu(x), first)
        assert kept.read_bytes() == whole  # rebuilt
    native._builtins.clear()
    stamp = kept.stat().st_mtime_ns
    assert torch.equal(run_gelu(x), first)
    assert kept.stat().st_mtime_ns == stamp  # read, not written again


def test_a_disk_that_takes_nothing_costs_only_the_cache(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("EMBER_CACHE", str(blocked))
    monkeypatch.setattr(native, "_builtins", {})
    x = torch.linspace(-3, 3, 3 * LARGE // 2)
    expected = 0.5 * x * (1 + torch.erf(x / 2**0.5))
    np.testing.assert_allclose(run_gelu(x).numpy(), expected.numpy(), atol=1e-6)


def run_gelu(x):
    """gelu by a plan made anew, so that its kernel is looked for."""
    OPS["gelu"].plans.clear()
    return F.gelu(x)


@pytest.mark.parametrize("bits", ["128", "256", "512"])
def test_vectors_of_every_width_agree(bits, monkeypatch):
    x = torch.linspace(-5, 5, 2 * LARGE + 3)
    expected = run_gelu(x)
    monkeypatch.setenv("EMBER_VECTOR_BITS", bits)
    assert native.vector_bytes() == int(bits) // 8
    assert torch.equal(run_gelu(x), expected)
    OPS["gelu"].plans.clear()


def test_an_error_in_a_thread_is_raised_here():
    def part(begin, end):
        if begin:
            raise ValueError("beyond")

    before = threads.count()
    threads.set_count(2)
    try:
        with pytest.raises(ValueError, match="beyond"):
            threads.split(part, 100, 1)
        seen = []
        threads.split(lambda begin, end: seen.append((begin, end)), 100, 1)
        assert sorted(seen) == [(0, 50), (50, 100)]
    finally:
        threads.set_count(before)


def test_exact_calls_are_those_without_sums_and_functions():
    def exact(name):
        op = OPS[name]
        assert isinstance(op, FormulaOp)
        return {compiled.is_exact(plan.call) for plan in op.plans.values()}

    x = torch.randn(LARGE)
    for name in ("gelu", "lerp", "sigmoid"):
        OPS[name].plans.clear()
    F.gelu(x), torch.lerp(x, x, 0.3), torch.sigmoid(x)
    assert exact("lerp") == {True}
    assert exact("gelu") == exact("sigmoid") == {False}


def test_what_runs_compiled_does_not_load_scipy():
    code = """
import sys
import ember as torch
x = torch.linspace(-3, 3, 100_000)
large = torch.nn.functional.gelu(x)
assert "scipy.special" not in sys.modules
small = torch.nn.functional.gelu(x[:10])
assert "scipy.special" in sys.modules
assert torch.allclose(large[:10], small, atol=1e-7)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 6e-8, 1e-8, 3.4e38, 1.001953125]


@pytest.mark.parametrize("length", [4096, 5003])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_large_casts_to_half_precision_and_back(kind, length):
    generator = np.random.default_rng(length)
    x = generator.standard_normal(length) * 10.0 ** generator.integers(-9, 9, length)
    x = x.astype(np.float32)
    x[: len(SPECIAL)] = SPECIAL
    with np.errstate(all="ignore"):
        expected = x.astype(getattr(torch, kind).numpy)
    found = torch.from_numpy(x).to(getattr(torch, kind))
    there, number = found.view(torch.int16).numpy(), ~np.isnan(x)
    np.testing.assert_array_equal(there[number], expected.view(np.int16)[number])
    np.testing.assert_array_equal(found.float().numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_casts_of_any_strides(kind):
    dtype = getattr(torch, kind)
    x = torch.randn(70, 66)
    for view in (x.t(), x[:, ::2], x.expand(3, 70, 66), x[1:]):
        found = view.to(dtype)
        assert torch.equal(found.contiguous(), view.contiguous().clone().to(dtype))
        turned = torch.zeros(view.shape[::-1], dtype=dtype).permute(*range(view.dim())[::-1])
        turned.copy_(view)
        assert torch.equal(turned, found)
    written = torch.zeros(4, 4096, dtype=dtype)
    written[1:3] = torch.arange(4096) / 64
    assert torch.equal(written[2].float(), (torch.arange(4096) / 64).to(dtype).float())
    assert not written[0].any() and not written[3].any()


def test_scipys_functions_of_large_arrays_run_compiled():
    x = torch.linspace(-5, 5, 5001)
    expected = np.array([math.erf(v) for v in x.tolist()])
    np.testing.assert_allclose(torch.erf(x).numpy(), expected, atol=2e-7)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "int64"])
def test_what_no_integer_holds_is_cast_as_from_float32(kind):
    x = torch.tensor([np.inf, -np.inf, np.nan, 300.0, -3e9, 1e20, 2.5], dtype=torch.bfloat16)
    dtype = getattr(torch, kind)
    with np.errstate(all="ignore"):
        assert x.to(dtype).tolist() == x.float().to(dtype).tolist()
    assert x[6:].to(dtype).tolist() == [2]
