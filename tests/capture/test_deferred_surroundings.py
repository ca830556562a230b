"""What work that waits has around it: settings that kernels go by, the ledger."""

import subprocess
import sys

import ember as torch
from tests.capture.test_deferred import waits


def test_settings_are_those_of_the_call():
    with torch.deferred():
        for change in (
            lambda: setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark),
            lambda: torch.set_float32_matmul_precision(torch.get_float32_matmul_precision()),
        ):
            x = torch.ones(2) * 2
            assert waits(x)
            change()
            assert not waits(x)


def test_the_ledger_sees_what_it_saw():
    code = """
import ember as torch
torch.cuda.simulate(2)
from ember.devices import ledger
found = []
for defer in (False, True):
    with torch.deferred(defer):
        x = torch.ones(3).cuda() * 2
        unseen = x + 1
        with ledger() as seen:
            y = (x * 2).cpu()
            z = (y + 1).cuda()
            for _ in range(3):
                (z * 2).sum().item()
            z.to("cuda:1")
        found.append([(e.direction, e.count, e.bytes, e.line) for e in seen.entries])
assert found[0] and found[0] == found[1], found
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
