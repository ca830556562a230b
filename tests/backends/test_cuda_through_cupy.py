"""What CuPy does for GPUs, with NumPy in its place behind an emulated driver: which calls go there,
how arrays are handed over, and that what fails is left to the host."""

import numpy as np
import pytest

from ember.backends.cpu import library as host
from ember.backends.cuda.cupy_functions import COMPUTES, MOVES, Elsewhere
from tests.backends.emulated import run

START = """
import numpy_as_cupy
calls = numpy_as_cupy.install()

def by_cupy(name, function, *inputs):
    before = len(calls)
    same(name, function, *inputs)
    assert calls[before:], f"{name} did not go to CuPy"
"""


def test_calls_go_to_cupy_and_give_what_the_cpu_gives(folder):
    run(
        folder,
        START
        + """
x = torch.randn(4, 6, 8)
for dim in (0, 1, -1):
    for descending in (False, True):
        by_cupy("sort", lambda a: torch.sort(a, dim, descending), x)
        ties = torch.randint(0, 3, (5, 7, 4))
        by_cupy("ties", lambda a: torch.sort(a, -1, descending, stable=True), ties)
    by_cupy("topk", lambda a: a.topk(3, dim), x)
    by_cupy("median", lambda a: a.median(dim), x)
    by_cupy("kthvalue", lambda a: a.kthvalue(2, dim, keepdim=True), x)
    by_cupy("cumsum", lambda a: a.cumsum(dim), x)
    by_cupy("cumprod", lambda a: a.cumprod(dim), x)
    by_cupy("flip", lambda a: a.flip(dim), x.bfloat16())
    by_cupy("roll", lambda a: a.roll(2, dim), x > 0)
by_cupy("half", lambda a: a.sort(-1), x.half())
by_cupy("bfloat16", lambda a: a.cumsum(-1), x.bfloat16())
by_cupy("turned", lambda a: a.permute(2, 0, 1)[::2].sort(0), x)
holes = x.clone()
holes[0, 0, 3] = float("nan")
by_cupy("nan", lambda a: a.sort(-1), holes)
by_cupy("nan", lambda a: a.sort(-1, descending=True), holes)
by_cupy("nan", lambda a: a.median(-1), holes)
by_cupy("searchsorted", lambda a, b: torch.searchsorted(a, b, right=True), torch.arange(5.), x)
by_cupy("bincount", lambda a: torch.bincount(a, minlength=9), torch.randint(0, 7, (40,)))
by_cupy("nonzero", lambda a: (a > 0).nonzero(), x)
by_cupy("masked_select", lambda a: a.masked_select(a > 0), x.bfloat16())
by_cupy("unique", lambda a: a.unique(return_inverse=True, return_counts=True), ties)
by_cupy("fft", lambda a: torch.fft.fft(a), x)
by_cupy("rfft", lambda a: torch.fft.irfft(torch.fft.rfft(a, dim=1), dim=1), x)
by_cupy("fft2", lambda a: torch.fft.fft2(a, s=(4, 4), norm="ortho"), x.double())
a = x @ x.mT + 6 * torch.eye(6)
for upper in (False, True):
    by_cupy("cholesky", lambda a: torch.linalg.cholesky(a, upper=upper), a)
by_cupy("inv", torch.linalg.inv, a)
by_cupy("det", torch.linalg.det, a)
by_cupy("slogdet", torch.linalg.slogdet, a)
by_cupy("solve", torch.linalg.solve, a, x)
by_cupy("solve", lambda a, b: torch.linalg.solve(a, b, left=False), a, x.mT)
by_cupy("eigvalsh", torch.linalg.eigvalsh, a)
by_cupy("svdvals", torch.linalg.svdvals, x)
by_cupy("qr", lambda a: torch.linalg.qr(a).R.abs(), x)
""",
    )


def test_what_cupy_does_not_do_goes_to_the_host(folder):
    run(
        folder,
        START
        + """
singular = torch.ones(3, 3).cuda()
try:
    torch.linalg.inv(singular)
except torch.linalg.LinAlgError as error:
    assert "singular" in str(error), error
else:
    raise AssertionError("no error")
assert torch.linalg.cholesky_ex(-torch.eye(2).cuda()).info.item() == 1
empty = torch.empty(0, 3).cuda()
assert empty.sort(0).values.shape == (0, 3) and empty.cumsum(0).shape == (0, 3)
assert torch.tensor(2.0).cuda().sort().values.item() == 2.0
try:
    torch.linalg.svd(torch.full((2, 2), float("nan")).cuda())
except torch.linalg.LinAlgError:
    pass
else:
    raise AssertionError("no error")
assert not set(calls) & {"inv", "cholesky", "sort", "cumsum", "svd"}, calls
""",
    )


def test_its_memory_is_counted_and_given_back(folder):
    run(
        folder,
        START
        + """
x = torch.randn(64, 64).cuda()
x.sort()
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
kept = [x.sort() for _ in range(3)]
assert torch.cuda.max_memory_allocated() > before + 3 * x.nbytes
del kept
assert torch.cuda.memory_allocated() == before
""",
    )


def test_programs_run_it_between_their_graphs(folder):
    run(
        folder,
        START
        + """
def step(x):
    return (x.exp().cumsum(-1) * 2).sort(-1).values + 1

x = torch.randn(4, 8)
compiled = torch.compile(step)
for _ in range(4):
    np.testing.assert_allclose(values(compiled(x.cuda())), values(step(x)), rtol=1e-5)
""",
    )


@pytest.mark.parametrize("name", sorted({**MOVES, **COMPUTES}))
def test_every_function_stands_for_one_of_the_cpus(name):
    assert callable(host.library_function(name))


def test_order_where_it_cannot_be_told_is_the_hosts():
    with pytest.raises(Elsewhere):
        COMPUTES["sort"](np, np.array([1j, 2]))
    with pytest.raises(Elsewhere):
        COMPUTES["topk"](np, np.arange(3), 4)
    with pytest.raises(Elsewhere):
        COMPUTES["searchsorted"](np, np.array([1.0, np.nan]), np.array([0.5]))
