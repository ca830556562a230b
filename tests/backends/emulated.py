"""Runs code with GPUs of an emulated driver, each time in a process of its own."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

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
    """What the code prints; `folder` keeps its kernels."""
    start = START.format(here=str(HERE), folder=str(folder), memory=memory)
    command = [sys.executable, "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
