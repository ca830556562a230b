"""Captured functions on simulated GPUs, in a process of their own."""

import subprocess
import sys

CODE = """
import ember as torch
from ember.capture.compiled import Captured
torch.cuda.simulate(2, "1GiB")
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    return loss, loss.cpu()

run = Captured(step)
torch.manual_seed(0)
x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
losses = [float(run(x, y)[1]) for _ in range(20)]
assert losses[-1] < losses[0] * 0.8, losses
assert run(x, y)[0].is_cuda
assert any(r.program is not None for r in run.recordings), run.report()
memory = torch.cuda.memory_allocated()
for _ in range(10):
    run(x, y)
assert torch.cuda.memory_allocated() == memory
print("ok")
"""


def test_steps_move_their_data_and_keep_their_memory():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr
