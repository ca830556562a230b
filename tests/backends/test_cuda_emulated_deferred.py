"""Training loops whose work waits, on GPUs of an emulated driver: replays are CUDA graphs."""

import shutil

import pytest

from tests.backends.emulated import run

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

LOOP = """
from ember.backends.cuda import library
library.MAKERS.pop("matmul")  # cuBLAS is not emulated: the host's product takes its place
from ember.capture import deferred as waiting
memory = waiting._on_gpus.memory
nn = torch.nn

def train(network, defer, steps=9, dtype=None, look=False, keep=False):
    torch.manual_seed(0)
    net = network().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    data = torch.Generator().manual_seed(1)
    losses, kept = [], []
    with torch.deferred(defer, host=False):
        for _ in range(steps):
            x = torch.randn(6, 12, generator=data).cuda()
            y = torch.randint(0, 4, (6,), generator=data).cuda()
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                loss = F.cross_entropy(net(x), y)
            if look:
                losses.append(loss.item())
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            if keep:
                kept.append([p.grad for p in net.parameters()])
        losses = [float(l) for l in losses]
        kept = [[g.cpu() for g in k] for k in kept]
        return losses, [p.detach().cpu() for p in net.parameters()], kept

def perceptron():
    return nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))

def compare(network, rtol=1e-4, **how):
    before = memory.replayed
    found, exact = train(network, True, **how), train(network, False, **how)
    np.testing.assert_allclose(found[0], exact[0], rtol=rtol)
    for a, b in zip(found[1], exact[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=20 * rtol, atol=2 * rtol)
    for k, l in zip(found[2], exact[2], strict=True):
        for a, b in zip(k, l, strict=True):
            np.testing.assert_allclose(a.float(), b.float(), rtol=20 * rtol, atol=2 * rtol)
    return memory.replayed - before
"""


def test_a_loop_is_replayed_as_graphs(folder):
    run(
        folder,
        LOOP
        + """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.rand(12)), nn.Parameter(torch.zeros(12))

    def forward(self, x):
        return F.gelu(x * self.a + self.b).view(6, 4, 3).sum(2)

assert compare(Scaled) >= 6
programs = [r for s in memory.sequences.values() for r in s.programs]
largest = max(programs, key=lambda r: r.program.count)
assert len(largest.program.steps) <= 3, [str(s) for s in largest.program.steps]
assert any(getattr(s, "graph", None) for s in largest.program.steps)
""",
    )


def test_values_that_are_looked_at_cut_it(folder):
    run(
        folder,
        LOOP
        + """
assert compare(perceptron, look=True) >= 10
programs = [r for s in memory.sequences.values() for r in s.programs]
last = max(programs, key=lambda r: len(r.lasting))
assert len(last.staying_in) >= 4  # what forward leaves for backward is read where it lies
assert compare(perceptron, look=True, keep=True) >= 6
""",
    )


def test_results_that_are_kept_get_memory_of_their_own(folder):
    run(folder, LOOP + "assert compare(perceptron, keep=True) >= 5\n")


def test_half_precision(folder):
    run(folder, LOOP + "assert compare(perceptron, rtol=2e-2, dtype=torch.bfloat16) >= 6\n")


def test_random_numbers_are_drawn_in_order(folder):
    run(
        folder,
        LOOP
        + """
def dropping():
    return nn.Sequential(nn.Linear(12, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 4))

assert compare(dropping) >= 6
for defer in (False, True):
    torch.manual_seed(3)
    with torch.deferred(defer, host=False):
        drawn = [torch.rand(4, device="cuda") * 2 for _ in range(3)]
        state = torch.cuda.get_rng_state()
        drawn.append(torch.randn(4, device="cuda") + 1)
        torch.cuda.set_rng_state(state)
        drawn.append(torch.randn(4, device="cuda") + 1)
    found = [d.tolist() for d in drawn]
    assert found[3] == found[4]
    known = found if not defer else known
    assert found == known
""",
    )


def test_events_memory_and_copies(folder):
    run(
        folder,
        """
with torch.deferred(host=False):
    x = torch.ones(1000, device="cuda")
    y = x * 2
    before = torch.cuda.memory_allocated()
    z = y + 1
    assert torch.cuda.memory_allocated() - before == 4096
    event = torch.cuda.Event()
    w = z * 2
    event.record()
    event.synchronize()
    torch.cuda.synchronize()
    assert w.cpu().tolist() == [6] * 1000
    target = torch.zeros(1000)
    target.copy_(w - 1)
    assert target.tolist() == [5] * 1000
    w.copy_(torch.full((1000,), 9.0))
    assert (w + x).cpu().tolist() == [10] * 1000
""",
    )


def test_a_memory_that_is_full(folder):
    run(
        folder,
        """
with torch.deferred(host=False):
    x = torch.ones(1 << 20, device="cuda")
    kept = []
    for _ in range(3):
        try:
            kept = [x * n for n in range(100)]
        except torch.cuda.OutOfMemoryError as error:
            assert "CUDA out of memory" in str(error)
        else:
            raise AssertionError("no error")
        kept = []
    assert (x + 1).sum().item() == 2 << 20
    for _ in range(100):  # nobody holds these
        y = x * 2
    assert y[0].item() == 2
""",
        memory=1 << 27,
    )
