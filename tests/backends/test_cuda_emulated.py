"""The CUDA backend on an emulated driver: generated kernels compiled with g++, the rest as it is.

Each case runs in a process of its own, since a process has one provider of GPUs."""

import json
import shutil
import subprocess
import sys

import pytest

from ember.backends.cuda.driver import _nvrtc
from tests.backends.emulated import run

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


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
