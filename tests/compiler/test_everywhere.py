"""EMBER_COMPILE=1 changes who runs a program and nothing that it does."""

import os
import subprocess
import sys

CODE = """
import ember as torch
from ember import nn
from ember.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for turn in range(6):
    x, y = torch.rand(5, 4), torch.randint(0, 2, (5,))
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    print(net(x).tolist(), net[1].running_mean.tolist())
    print(torch.add(x, 1).sum().item(), torch.max(x, 0).indices.tolist(), torch.zeros(2).add_(1))
    whole = torch.arange(4.0)
    torch.t(whole.view(2, 2)).mul_(2)
    print(whole, torch.linalg.norm(whole), torch.where(whole > 2, whole, 0 * whole))
    print(torch.stack(torch.split(whole, 2)).storage_offset(), torch.clamp_(whole, max=3), whole)
print(torch.zeros(2, requires_grad=True), torch.nonzero(whole).tolist())
"""

SEEN = """
from ember.compiler.everywhere import Replayed
assert type(net._compiled_call_impl) is Replayed
assert any(r.program is not None for r in net._compiled_call_impl.recordings)
assert net[0]._compiled_call_impl is None
assert torch.add is not torch.ops.aten.add and torch.add.__wrapped__
"""

REPLAYED = """
from ember.capture.compiled import Captured
captured = net._compiled_call_impl
assert type(captured) is Captured
assert sum(r.program is not None for r in captured.recordings) == 2
assert not hasattr(torch.add, "__wrapped__")

import copy, pickle
assert copy.deepcopy(net)._compiled_call_impl is None
assert pickle.loads(pickle.dumps(net))._compiled_call_impl is None
assert net[0](x).shape == (5, 8)
assert type(net[0]._compiled_call_impl) is Captured
assert net(x).shape == (5, 2)

class Asks(nn.Module):
    def forward(self, x):
        return net[0](x) if x.sum().item() > 0 else x

asks = Asks()
for turn in range(3):
    assert asks(x).shape == (5, 8)
assert "reads a tensor" in asks._compiled_call_impl.report()
"""


def output(code, **settings):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_prints_the_same():
    plain = output(CODE)
    assert output(CODE + SEEN, EMBER_COMPILE="1") == plain
    assert output(CODE, EMBER_COMPILE="0") == plain
    waiting = {"EMBER_COMPILE": "modules", "EMBER_COMPILE_WAIT": "1"}
    assert output(CODE + REPLAYED, **waiting) == plain
    assert "requires_grad=True" in plain
