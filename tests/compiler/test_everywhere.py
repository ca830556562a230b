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
    assert "requires_grad=True" in plain
