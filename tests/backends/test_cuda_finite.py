"""The kernel that looks for inf and NaN in many arrays of a GPU, on an emulated driver."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

CODE = """
import sys
sys.path.insert(0, {here!r})
from cuda_emulator import Emulator
from ember.backends.base import register
from ember.backends.cuda.backend import CudaBackend
driver = Emulator({folder!r}, 1, 1 << 28)
register("cuda", lambda: CudaBackend(driver))
import ember as torch
from ember.amp.overflow_guard import all_finite
from ember.backends.cuda import finite

def look(*tensors):
    return all_finite([t._array for t in tensors])

for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    fine = [torch.randn(n, device="cuda").to(dtype) for n in (1, 2, 7, 513)]
    large = torch.full((5, 3), torch.finfo(dtype).max, dtype=dtype, device="cuda")
    assert look(*fine, large) and look(*fine, large.t()) and look(large[1:]), dtype
    for value in (float("inf"), float("-inf"), float("nan")):
        for place in (0, 6):
            bad = fine[2].clone()
            bad[place] = value
            assert not look(*fine, bad), (dtype, value, place)
            assert not look(bad, *fine)
        wide = large.clone()
        wide[4, 2] = value
        assert not look(wide.t()) and not look(wide[:, 2]) and look(wide[:, :2]), dtype
        assert look(wide[:4]) and not look(fine[0], wide[3:])
whole, empty = torch.ones(3, dtype=torch.int64, device="cuda"), torch.ones(0, device="cuda")
assert look() and look(whole, empty)
before = driver.launches
grads = [torch.ones(4, device="cuda") for _ in range(50)]
before = driver.launches
assert look(*grads) and driver.launches == before + 1  # one kernel for all of them

x = torch.tensor([0.0, 1.0], device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.0)
with torch.amp.guard(action="note") as watch:
    for shift in (1.0, 1.0, 0.0):
        optimizer.zero_grad()
        (x + shift).log().sum().backward()
        optimizer.step()
(found,) = watch.reports
assert (found.op, found.made) == ("log", "inf"), found

# what GPUs count for an allocation is what fits() counts
layer = torch.nn.Linear(1100, 1001)
kinds = torch.devices.fits(layer, torch.ones(4, 1100), "1x1GiB", search=False).peak.by_kind
before = torch.cuda.memory_allocated()
layer.cuda()
assert kinds["weights"] == torch.cuda.memory_allocated() - before > 1100 * 1001 * 4 + 4096
print("fine")
"""


def test_one_kernel_looks_at_all(tmp_path):
    code = CODE.format(here=str(HERE), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout == "fine\n"
