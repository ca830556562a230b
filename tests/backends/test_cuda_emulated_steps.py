"""Memory, graphs, training steps and recordings of the CUDA backend on an emulated driver."""

import shutil

import pytest

from tests.backends.emulated import run

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def test_memory_is_pooled_counted_and_full_in_the_end(folder):
    run(
        folder,
        """
memory = torch.cuda.memory_allocated
start = memory()
x = torch.empty(1000, device="cuda")
assert memory() - start == 4096
address = x.data_ptr()
del x
assert memory() == start
assert torch.empty(1000, device="cuda").data_ptr() == address  # the same block again
for _ in range(3):
    try:
        torch.empty(1 << 28, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "CUDA out of memory. Tried to allocate 1.00 GiB" in str(error)
    else:
        raise AssertionError("no error")
assert memory() == start
big = [torch.empty(1 << 20, device="cuda") for _ in range(10)]
reserved = torch.cuda.memory_reserved()
del big
assert torch.cuda.memory_reserved() == reserved
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
assert torch.ones(3, device="cuda").sum().item() == 3
""",
        memory=1 << 27,
    )


def test_a_training_step_is_that_of_the_cpu(folder):
    run(
        folder,
        """
def losses(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(32, 8).to(device), torch.randint(0, 4, (32,)).to(device)
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found

from ember.backends.cuda import library
library.MAKERS.pop("matmul")  # cuBLAS is not emulated: the host's product takes its place
np.testing.assert_allclose(losses("cuda"), losses("cpu"), rtol=1e-5)
""",
    )


def test_what_moves_is_in_the_ledger(folder):
    run(
        folder,
        """
from ember.devices import ledger
x = torch.randn(10).cuda()
with ledger() as seen:
    torch.special.zeta(x.abs() + 2, 1.5)  # the host computes it
rows = sorted((e.direction, e.source, e.target, e.count, e.bytes) for e in seen.entries)
assert rows == [
    ("device to host", "cuda:0", "cpu", 1, 40), ("host to device", "cpu", "cuda:0", 1, 40)
], rows
""",
    )


def test_graphs_and_events(folder):
    run(
        folder,
        """
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
x, graph = torch.ones(100, device="cuda"), torch.cuda.CUDAGraph()
y = x * 2 + 1
before = torch.cuda.memory_allocated()
with torch.cuda.graph(graph):
    assert torch.cuda.is_current_stream_capturing()
    y = (x * 2 + 1) * 3
    z = torch.rand_like(y) + y
x.fill_(2)
graph.replay()
assert y[0].item() == 15 and torch.equal(x, torch.full_like(x, 2))
first = z.tolist()
graph.replay()
assert first != z.tolist() and 15 <= min(z.tolist()) and max(z.tolist()) < 16
del y
taken = [torch.zeros(100, device="cuda") for _ in range(20)]
graph.replay()
assert all(t.sum().item() == 0 for t in taken)
del graph, z, taken
assert torch.cuda.memory_allocated() <= before
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.cpu()
except AssertionError:  # of the emulator; RuntimeError of the driver
    pass
assert not torch.cuda.is_current_stream_capturing() and x[0].item() == 2
end.record()
end.synchronize()
assert start.elapsed_time(end) > 0 and end.query() and torch.cuda.current_stream().query()
""",
    )


def test_optimizers_inside_a_graph_follow_their_schedules(folder):
    run(
        folder,
        """
from ember.backends.cuda import library
library.MAKERS.pop("matmul")  # cuBLAS is not emulated: the host's product takes its place

def trained(device, kind, options, wrap):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    model = model.to(device)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-2, **options)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    x, y = torch.randn(32, 8).to(device), torch.randint(0, 4, (32,)).to(device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    step, found = wrap(step), []
    for _ in range(6):
        found.append(step().item())
        schedule.step()
    found += [p.sum().item() for p in model.parameters()]
    return found, step, optimizer.state[model[0].weight].get("step")

for kind, options in [("AdamW", {}), ("Adam", {"fused": True, "amsgrad": True}),
                      ("SGD", {"momentum": 0.9, "nesterov": True}), ("RMSprop", {})]:
    wanted, _, _ = trained("cpu", kind, options, lambda step: step)
    found, compiled, count = trained("cuda", kind, options, torch.compile)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    assert "eager" not in compiled.report(), compiled.report()
    assert count is None or count.item() == 6
captured = next(c.cell_contents for c in compiled.__closure__
                if type(c.cell_contents).__name__ == "Captured")
(program,) = [r.program for r in captured.recordings if r.program]
assert "together 4 rmsprop_" in program.names  # one kernel for all parameters
assert not any(n.startswith("host") for n in program.names[:-1])
graphs = [s for s in program.steps if type(s).__name__ == "GraphSegment"]
assert graphs and all(g.graph is not None for g in graphs)
from ember.backends.base import kernels_of
(table,) = kernels_of(torch.device("cuda", 0)).numbers.tables
before = len(table.free)
del captured, program, graphs, compiled
import gc
gc.collect()
assert len(table.free) > before
""",
    )


def test_formulas_of_a_recording_join(folder):
    run(
        folder,
        """
def step(x, w, b):
    y = (x * 2 + b).bfloat16()               # one kernel with what follows, over another shape
    z = F.gelu(y.view(12, 8)).float() + w
    s = F.softmax(z * 3, -1)                 # a row program takes the map before it
    return s, z.view(3, 4, 8).relu() - b

def program_of(compiled):
    captured = next(c.cell_contents for c in compiled.__closure__
                    if type(c.cell_contents).__name__ == "Captured")
    return captured.recordings[0].program

x, w, b = torch.randn(3, 4, 8).cuda(), torch.randn(12, 8).cuda(), torch.randn(8).cuda()
compiled = torch.compile(step)
for _ in range(4):
    for a, e in zip(compiled(x, w, b), step(x, w, b), strict=True):
        np.testing.assert_allclose(values(a), values(e), rtol=5e-2, atol=2e-2)  # rounded less
names = program_of(compiled).names
assert len(names) == 1 and names[0].count("+") >= 8, names

def apart(x):  # a view of the result in another order is read too: nothing may be left out
    y = x * 2
    return (y + 1).view(-1) + y.t().reshape(-1)

compiled = torch.compile(apart)
x = torch.randn(5, 7).cuda()
for _ in range(3):
    np.testing.assert_allclose(values(compiled(x)), values(apart(x)), rtol=1e-6)

def wide(x, many):  # formulas that are alike are one kernel, those in between stay in order
    found = []
    for i, m in enumerate(many):
        half = m.bfloat16() + i % 2
        found.append(half.float().sum() + x.sum())
        x.mul_(1.5)
    return found

compiled = torch.compile(wide)
many = [torch.randn(n).cuda() for n in (1, 7, 9000, 33, 20000, 8)]
x = torch.ones(5).cuda()
y = x.clone()
for _ in range(3):
    for a, e in zip(compiled(x, many), wide(y, many), strict=True):
        np.testing.assert_allclose(values(a), values(e), rtol=1e-2, atol=0.5)
assert any(n.startswith("together 3") for n in program_of(compiled).names)

def turned(x, w):  # the gradient of a transposed weight is made in the weight's order
    w = w.detach().requires_grad_()
    (x @ w.t()).float().pow(2).sum().backward()
    v = w.t().detach().t().requires_grad_()  # used twice: the gradients are added up
    ((x @ v.t()).float().pow(2).sum() + (v.float() * 2).sum()).backward()
    return w.grad.float().contiguous() + 1 + v.grad.float()

from ember.backends.cuda import library
library.MAKERS.pop("matmul")
compiled = torch.compile(turned)
x, w = torch.randn(6, 5).cuda().bfloat16(), torch.randn(4, 5).cuda().bfloat16()
for _ in range(3):
    np.testing.assert_allclose(values(compiled(x, w)), values(turned(x, w)), rtol=5e-2, atol=0.1)

def written(x):
    y = x.view(-1)
    y.mul_(2)
    return x.exp() + 1, y.sum()

compiled = torch.compile(written)
a, b = torch.randn(4, 6).cuda(), None
b = a.clone()
for _ in range(3):
    for m, n in zip(compiled(a), written(b), strict=True):
        np.testing.assert_allclose(values(m), values(n), rtol=1e-5)
    assert torch.equal(a, b)
""",
    )


def test_attention_is_one_kernel_where_there_is_one(folder):
    run(
        folder,
        """
import ctypes, ml_dtypes
from ember.backends.cuda import fused_attention, library
library.MAKERS.pop("matmul")
planned = []

def at(address, shape, strides, dtype=ml_dtypes.bfloat16):
    size = np.dtype(dtype).itemsize
    last = sum((n - 1) * s for n, s in zip(shape, strides)) + 1
    held = (ctypes.c_char * (last * size)).from_address(address)
    flat = np.frombuffer(held, dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * size for s in strides])

class Attention:  # cuDNN's part, on the host
    def __init__(self, cudnn, q, k, v, causal, scale):
        self.specs, self.how, self.forward = (q, k, v), (causal, scale), self
        planned.append((q, k, v))

    def weights(self, places):
        q, k, v = (at(p, s.shape, s.strides).astype(np.float32)
                   for p, s in zip(places, self.specs))
        scores = q @ k.swapaxes(2, 3) * self.how[1]
        if self.how[0]:
            scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        sums = np.log(e.sum(-1)) + scores.max(-1)
        return q, k, v, e / e.sum(-1, keepdims=True), sums

    def run(self, memory, places):
        q, k, v, w, sums = self.weights(places)
        shape = (*q.shape[:3], v.shape[3])
        at(places[3], shape, fused_attention.heads_last(shape))[...] = w @ v
        at(places[4], sums.shape, sums.strides and [s // 4 for s in sums.strides],
           np.float32)[...] = sums

    def backward(self, slope):
        class Plan:
            @staticmethod
            def run(memory, places):
                q, k, v, w, sums = self.weights(places)
                shape = (*q.shape[:3], v.shape[3])
                last = fused_attention.heads_last
                out = at(places[3], shape, last(shape)).astype(np.float32)
                np.testing.assert_allclose(out, w @ v, atol=2e-2)
                kept = at(places[5], sums.shape, [s // 4 for s in sums.strides], np.float32)
                np.testing.assert_allclose(kept, sums, rtol=1e-5)
                g = at(places[4], shape, slope).astype(np.float32)
                by_w = g @ v.swapaxes(2, 3)
                d = w * (by_w - (by_w * w).sum(-1, keepdims=True)) * self.how[1]
                made = d @ k, d.swapaxes(2, 3) @ q, w.swapaxes(2, 3) @ g
                for p, m in zip(places[6:], made):
                    at(p, m.shape, last(m.shape))[...] = m
        return Plan

fused_attention.package = lambda: True
fused_attention.Attention = Attention
from ember.backends.cuda.kernels import CudaKernels
CudaKernels.cudnn = lambda self: None

def attended(x, causal):
    x = x.detach().requires_grad_()
    q, k, v = x.view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    joined = out.transpose(1, 2).reshape(2, 5, 16)
    (joined * torch.linspace(-1, 1, 16, device=x.device)).sum().backward()
    return joined, x.grad, out

x = torch.randn(2, 5, 48).bfloat16()
for causal in (False, True):
    for a, b in zip(attended(x, causal), attended(x.cuda(), causal), strict=True):
        np.testing.assert_allclose(values(b), values(a), atol=4e-2, err_msg=str(causal))
assert len(planned) == 2 and planned[0][0].strides == (240, 8, 48, 1)
assert b.stride() == (80, 8, 16, 1)  # joining the heads copies nothing
def scores(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)
def contiguous(x, *parts):
    return scores(*parts).contiguous()
same("at an odd place", lambda x: contiguous(x, *(x.flatten()[i:i + 320].view(1, 2, 20, 8)
                                                  for i in (0, 3, 7))), x)
same("wide", lambda x: contiguous(x, *x.float().view(3, 1, 4, 5, 8)), x)
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    before = len(planned)
    scores(*x.cuda().view(3, 2, 1, 10, 8))
    assert len(planned) == before
q = torch.randn(1, 1, 4, 8, device="cuda").bfloat16().requires_grad_()
(g,) = torch.autograd.grad(scores(q, q, q).float().pow(2).sum(), q, create_graph=True)
(h,) = torch.autograd.grad(g.float().sum(), q)
assert h.isfinite().all()
""",
    )
