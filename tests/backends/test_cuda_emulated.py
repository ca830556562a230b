"""The CUDA backend on an emulated driver: generated kernels compiled with g++, the rest as it is.

Each case runs in a process of its own, since a process has one provider of GPUs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ember.backends.cuda.driver import _nvrtc

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

START = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from cuda_emulator import Emulator
from ember.backends.base import register
from ember.backends.cuda.backend import CudaBackend
driver = Emulator({folder!r}, 2, {memory})
register("cuda", lambda: CudaBackend(driver))
import ember as torch
F = torch.nn.functional
torch.manual_seed(0)

def values(made):
    made = made.detach().cpu()
    return (made.float() if made.dtype is torch.bfloat16 else made).numpy()

def same(name, function, *inputs):
    moved = [t.cuda() if isinstance(t, torch.Tensor) else t for t in inputs]
    host, device = function(*inputs), function(*moved)
    if not isinstance(host, (tuple, list)):
        host, device = (host,), (device,)
    for a, b in zip(host, device, strict=True):
        assert b.is_cuda and a.dtype is b.dtype, name
        assert a.shape == b.shape and a.stride() == b.stride(), (name, a.stride(), b.stride())
        step = 2e-5 if a.dtype.itemsize > 2 else 1e-2
        np.testing.assert_allclose(values(b), values(a), rtol=step, atol=1e-5, err_msg=name)
"""


def run(folder, code, memory=1 << 30):
    start = START.format(here=str(HERE), folder=str(folder), memory=memory)
    command = [sys.executable, "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where compiled kernels of this module are kept."""
    return tmp_path_factory.mktemp("kernels")


GROUPS = {
    "maps": """
x, y, b, i = torch.randn(5, 7), torch.randn(5, 7), torch.randn(7), torch.randint(-9, 9, (5, 7))
same("add", lambda x, y: x + y * 2, x, y)
same("broadcast", lambda x, b: x * b, x, b)
same("transposed", lambda x: x.t() + 1, x)
same("strided", lambda x: x[1:3, ::2] * 3, x)
same("half", lambda x: x.half() * 3, x)
same("bfloat16", lambda x: x.bfloat16().exp(), x)
same("double", lambda x: x.double().tanh(), x)
same("where", lambda x: torch.where(x > 0, x, 0.5), x)
same("integers", lambda i: i // 4 % 3 - i.remainder(-5), i)
same("shifts", lambda i: (i << 2) ^ (i >> 1) & 3, i)
same("converted", lambda i: i.to(torch.float64) / 3, i)
same("truth", lambda x, y: (x > y) & ~(y > 0) | x.isnan(), x, y)
same("exclusive or", lambda x, y: torch.logical_xor(x.relu(), y.relu() * 2), x, y)
same("gelu", lambda x: F.gelu(x), x)
same("lerp", lambda x, y: torch.lerp(x, y, 0.3), x, y)
same("in place", lambda x: x.clone().mul_(2).add_(1), x)
same("aligned and not", lambda x: x.flatten()[1:] + x.flatten()[1:], x)
same("by the host", lambda x: torch.special.zeta(x.abs() + 2, 1.5), x)
""",
    "copies": """
t = torch.randn(3, 40, 70)
same("turned", lambda t: t.transpose(1, 2).contiguous(), t)
same("all turned", lambda t: t.half().permute(2, 1, 0).contiguous(), t)
last = torch.channels_last
same("channels last", lambda t: t.view(3, 10, 4, 70).contiguous(memory_format=last), t)
same("and back", lambda t: t.view(3, 4, 70, 10).permute(0, 3, 1, 2).contiguous(), t)
same("complex turned", lambda t: t[0].to(torch.complex128).t().contiguous(), t)
x = torch.randn(4, 5, 6)
same("contiguous", lambda x: x.permute(2, 0, 1).contiguous(), x)
same("cast", lambda x: x.permute(2, 0, 1).to(torch.int32), x)
same("expanded", lambda x: x[:, :1].expand(4, 5, 6).clone(), x)
same("complex", lambda x: x.to(torch.complex64) * 1j, x)
same("double complex", lambda x: x.to(torch.complex128).transpose(0, 1).contiguous(), x)
same("filled", lambda x: torch.full((4,), 2.5, device=x.device) + x.new_zeros(4), x)
same("part filled", lambda x: x.clone().fill_(3)[::2] + x[::2].clone().zero_(), x)
same("written part", lambda x: torch.cat([x, x * 2], 1)[:, 3:8], x)
y = x.cuda()
assert y[1].data_ptr() == y.data_ptr() + 120
assert y.cuda(1).device == torch.device("cuda:1") and torch.equal(y.cuda(1).cpu(), x)
""",
    "rows and sums": """
x, b, i = torch.randn(6, 33), torch.randn(33), torch.randint(-9, 9, (6, 33))
same("softmax", lambda x: F.softmax(x, 1), x)
same("softmax of one", lambda x: F.softmax(x[0, 0], 0) + F.log_softmax(x[0, 0], 0), x)
same("softmax down", lambda x: F.softmax(x, 0), x)
same("softmax of channels", lambda x: F.softmax(x.view(2, 3, 33), 1), x)
same("layer_norm", lambda x, b: F.layer_norm(x, (33,), b, b), x, b)
same("batch_norm", lambda x: F.batch_norm(x.view(2, 3, 33), None, None, training=True), x)
same("half", lambda x: F.log_softmax(x.half(), 1), x)
for dim in (None, 0, 1, (0, 1)):
    same("sum", lambda x: x.sum(dim), x)
    same("amax", lambda x: x.amax(dim if dim is not None else ()), x)
    same("integers", lambda i: i.sum(dim), i)
    same("count", lambda x: (x > 2).sum(dim), x)
same("any", lambda x: (x > 2).any(1) ^ (x > -1).all(1), x)
same("mean", lambda x: x.mean(1, keepdim=True), x)
same("product", lambda x: (x / 2).prod(1), x)
same("amin", lambda i: i.amin(0), i)
many = (torch.arange(60000) % 7).float().view(-1, 2)
same("many down", lambda m: m.sum(0), many)
wide, w = torch.randn(10, 96), torch.randn(96)
for dtype in (torch.float32, torch.bfloat16, torch.float64):
    same("packed softmax", lambda x: F.softmax(x.to(dtype), 1), wide)
    same("packed norm", lambda x, w: F.layer_norm(x, (96,), w, w), wide.to(dtype), w.to(dtype))
    same("packed bias", lambda x, w: x + w, wide.to(dtype), w.to(dtype))
    same("packed column", lambda x: x * x[:, :1], wide.to(dtype))
    same("packed parts", lambda x: F.softmax(x[:, 32:], 1) + x[:, :64], wide.to(dtype))
    same("not aligned", lambda x: F.log_softmax(x[:, 1:], 1) + x[:, :95], wide.to(dtype))
    same("planes", lambda x: F.group_norm(x.view(5, 8, 24), 4), wide.to(dtype))
same("packed batch_norm", lambda x: F.batch_norm(x.view(5, 2, 96), None, None, training=True), wide)
same("packed sums", lambda x: x.sum(1) + x.amax(1) + x.abs().mean(1), wide)
same("very long", lambda x: F.softmax(x.repeat(1, 800), 1), wide)
same("long sum", lambda x: (x.repeat(3000, 1) > 0).sum(), wide)
def grads(x, w):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    (F.layer_norm(x, (96,), w, w).relu() * w).sum().backward()
    return x.grad, w.grad
same("gradients", grads, wide, w)
same("long", lambda x: torch.ones(70000, device=x.device).sum(), x)
same("empty", lambda x: x[:0].sum(0), x)
same("std", lambda x: x.std(1), x)
""",
    "batch norm": """
def normed(x, weight, bias):
    x = x.contiguous(memory_format=torch.channels_last).detach().requires_grad_()
    parts = [x] + [t.detach().requires_grad_() for t in (weight, bias) if t is not None]
    c, kind = x.size(1), x.dtype
    mean, var = torch.zeros(c, device=x.device), torch.ones(c, device=x.device)
    given = x if x.is_cuda else x.float()
    pair = parts[1:] if weight is not None else (None, None)
    made = F.batch_norm(given, mean, var, *pair, training=True, momentum=0.3)
    factors = torch.linspace(-1, 1, made.numel(), device=x.device).view(made.shape)
    factors = factors.bfloat16().float()
    (made.float() * factors).sum().backward()
    return [made.to(kind).contiguous(), mean, var, *(p.grad.contiguous() for p in parts)]
for shape in ((5, 16, 3, 7), (2, 24, 1, 2), (9, 3, 4, 4), (4, 80, 9, 9)):
    x = torch.randn(shape) * 3 + 20
    w, b = torch.randn(shape[1]), torch.randn(shape[1])
    for dtype in (torch.float32, torch.bfloat16):
        if dtype is torch.bfloat16:
            x = x - 20  # the host rounds more often
        same(f"{shape} {dtype}", normed, x.to(dtype), w, b)
        same(f"{shape} {dtype} plain", lambda x: normed(x, None, None), x.to(dtype))
x = torch.randn(4, 8, 3, 3, device="cuda").contiguous(memory_format=torch.channels_last)
x, w = x.requires_grad_(), torch.randn(8, device="cuda", requires_grad=True)
def slopes(x, w):
    made = F.batch_norm(x, None, None, w, None, training=True)
    assert "BatchNorm" in type(made.grad_fn).__name__, made.grad_fn
    (g,) = torch.autograd.grad((made ** 3).sum(), x, create_graph=True)
    return torch.autograd.grad(g.pow(2).sum(), [x, w])
host = [t.detach().cpu().double().requires_grad_() for t in (x, w)]
for a, b in zip(slopes(x, w), slopes(*host)):
    np.testing.assert_allclose(values(a), values(b), rtol=1e-3, atol=1e-3)
""",
    "class losses": """
def loss(x, y, **how):
    kind = x.dtype
    x = (x if x.is_cuda else x.float()).detach().requires_grad_()  # the host rounds too often
    made = F.cross_entropy(x, y, **how)
    factors = torch.arange(made.numel(), device=x.device).view(made.shape).add(2)
    (made.float() * factors).sum().backward()
    return made.to(kind), x.grad.to(kind)
for classes in (10, 64, 1003):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, y = (torch.randn(9, classes) * 5).to(dtype), torch.randint(0, classes, (9,))
        y[3] = 2
        same("mean", loss, x, y)
        same("each", lambda x, y: loss(x, y, reduction="none"), x, y)
        same("ignored", lambda x, y: loss(x, y, ignore_index=2, reduction="sum"), x, y)
x[1, 5:], x[2, :] = -torch.inf, 1e4
y[1], y[2] = 4, 0
same("masked", loss, x, y)
same("bytes", lambda x, y: F.cross_entropy(x[:, ::2], y.to(torch.uint8)), x.float(), y % 100)
same("weights", lambda x, y: F.cross_entropy(x, y, x[0].abs()), x.float()[:, :50].tanh(), y % 50)
same("smoothed", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), x.float()[3:], y[3:])
with torch.autocast("cuda", torch.bfloat16):
    made = F.cross_entropy(torch.randn(4, 8, device="cuda").bfloat16(), y[:4].cuda() % 8)
assert made.dtype is torch.float32
x = torch.randn(3, 4, device="cuda", requires_grad=True)
(g,) = torch.autograd.grad(F.cross_entropy(x, y[:3].cuda() % 4), x, create_graph=True)
assert torch.autograd.grad(g.pow(2).sum(), x)[0].abs().sum() > 0
try:
    F.cross_entropy(torch.randn(2, 3, device="cuda"), torch.tensor([1, 3], device="cuda")).item()
except torch.AcceleratorError as error:
    assert "out of bounds" in str(error)
else:
    raise AssertionError("no error")
""",
    "indices": """
x, w = torch.randn(5, 7), torch.randn(9, 4)
j, k = torch.randint(0, 9, (3, 5)), torch.randint(0, 5, (4,))
same("embedding", lambda w, j: F.embedding(j, w), w, j)
same("rows", lambda x, k: x[k], x, k)
same("negative", lambda x, k: x[k - 5], x, k)
same("columns", lambda x, k: x[:, k], x, k)
same("pairs", lambda x, k: x[k, k], x, k)
same("grid", lambda x, k: x[k[:, None], k], x, k)
same("apart", lambda x, k: x.expand(5, 5, 7)[k, :, k + 1], x, k)
same("mask", lambda x: x[x > 0], x)
same("index_select", lambda x, k: x.index_select(1, k), x, k)
same("gather", lambda x, k: x.gather(1, k.view(4, 1)), x, k)
ones = lambda x, *shape: torch.ones(shape, device=x.device)
same("scatter", lambda x, k: x.scatter(0, k.view(1, 4)[:, :1], ones(x, 1, 1)), x, k)
same("scatter_add", lambda x, k: x.scatter_add(0, k.view(1, 4), ones(x, 1, 4)), x, k)
same("index_add", lambda x, k: x.index_add(1, k, ones(x, 5, 4)), x, k)
same("half sums", lambda x, k: x.half().index_add(0, k, ones(x, 4, 7).half()), x, k)
same("accumulate", lambda x, k: x.index_put((k,), ones(x, 4, 7), accumulate=True), x, k)
same("assign", lambda x, k: x.index_put((k,), torch.tensor(1.0, device=x.device)), x, k)
same("triangles", lambda x: x.tril() - x.triu(1), x)
same("argmax", lambda x: x.argmax(1), x)
same("argmin", lambda x: x.argmin(), x)
same("sort", lambda x: x.sort(1), x)
image = torch.randn(2, 3, 8, 9)
def pooled(image):
    image = image.detach().requires_grad_()
    made = F.max_pool2d(image, 3, 2, 1)
    made.sum().backward()
    return made, image.grad
same("max_pool", pooled, image)
last = image.to(memory_format=torch.channels_last)
same("max_pool of channels last", pooled, last)
same("avg_pool", lambda i: F.avg_pool2d(i, 2), last)
same("interpolate", lambda i: F.interpolate(i, scale_factor=2, mode="bilinear"), last)
same("batch_norm", lambda i: F.relu(F.batch_norm(i, None, None, training=True)), last)
same("cat", lambda i: torch.cat([i, i * 2], 1), last)
same("flip", lambda i: i.flip(3), last)
bad = torch.zeros(3, device="cuda")[torch.tensor([5], device="cuda")]
try:
    bad.cpu()
except torch.AcceleratorError as error:
    assert "device-side assert" in str(error) and "out of bounds" in str(error)
else:
    raise AssertionError("no error")
assert torch.zeros(3, device="cuda").cpu().tolist() == [0, 0, 0]  # said once
""",
}


@pytest.mark.parametrize("name", GROUPS)
def test_results_are_those_of_the_cpu(name, folder):
    run(folder, GROUPS[name])


COLLECT = """
import atexit, json
sources, compiled = set(), Emulator.compile
def collecting(self, index, source):
    sources.add(source)
    return compiled(self, index, source)
Emulator.compile = collecting
atexit.register(lambda: json.dump(sorted(sources), open({path!r}, "w")))
"""


@pytest.mark.parametrize("name", GROUPS)
def test_nvidias_compiler_takes_the_kernels(name, folder, tmp_path):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    path = tmp_path / "sources.json"
    run(folder, COLLECT.format(path=str(path)) + GROUPS[name])
    sources = json.loads(path.read_text())
    assert len(sources) > 5
    for source in sources:
        assert len(_nvrtc(nvrtc, source, "sm_90")) > 1000, source[-2000:]


def test_random_numbers_are_those_of_simulated_gpus(folder):
    code = """
import json
torch.manual_seed(5)
drawn = [torch.randn(3, device="cuda"), torch.rand(2, 2, device="cuda"),
         torch.randint(0, 100, (3,), device="cuda"), torch.randperm(5, device="cuda")]
def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="cuda")
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    e = lambda: empty(7, 9, dtype=dtype)
    drawn += [e().uniform_(), e().uniform_(-3, 0.1), e().normal_(), e().normal_(2, 3),
              e().bernoulli_(0.3), e().random_(), e().random_(-7, 1000), e().exponential_(3),
              e().geometric_(0.2), e().log_normal_(0, 1), e().cauchy_(1, 2)]
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool):
    e = lambda: empty(37, dtype=dtype)
    drawn += [e().random_(), e().random_(0, 2), e().bernoulli_(0.5)]
drawn += [empty(5, dtype=torch.int64).random_(-(1 << 40), 1 << 50), empty(11, 5).t().normal_(),
          torch.view_as_real(torch.randn(5, 3, dtype=torch.complex64, device="cuda"))]
probabilities = torch.linspace(0, 1, 40, device="cuda")
drawn += [torch.bernoulli(probabilities), empty(3, 40).bernoulli_(probabilities.double())]
drawn += [torch.nn.functional.dropout(torch.ones(50, device="cuda"), 0.3)]
drawn += [torch.rand(3, device="cuda")]
print(json.dumps([d.float().cpu().tolist() for d in drawn]))
"""
    simulated = "import ember as torch\ntorch.cuda.simulate(1)\n" + code
    done = subprocess.run([sys.executable, "-c", simulated], capture_output=True, text=True)
    assert json.loads(run(folder, code)) == json.loads(done.stdout)


def test_a_graph_draws_new_numbers_at_each_launch(folder):
    run(
        folder,
        """
def step(x):
    y = torch.nn.functional.dropout(x, 0.5) * 2 + torch.rand_like(x)
    return y * 3 + torch.randn_like(x)

x = torch.ones(100, device="cuda")
torch.manual_seed(3)
wanted = [step(x).tolist() for _ in range(6)]
again = torch.compile(step)
torch.manual_seed(3)
assert [again(x).tolist() for _ in range(6)] == wanted
assert torch.cuda.default_generators[0].get_offset() == 6 * 3 * 4
""",
    )


def test_probabilities_are_checked_when_something_is_read(folder):
    run(
        folder,
        """
drawn = torch.bernoulli(torch.tensor([0.5, 1.5], device="cuda"))
try:
    drawn.cpu()
except RuntimeError as error:
    assert "Expected p_in >= 0 && p_in <= 1" in str(error)
else:
    raise AssertionError("no error")
""",
    )


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
