"""What the first steps of training do on a GPU, on an emulated driver."""

import shutil

import pytest

from tests.backends.emulated import run

CODE = """
from ember.backends.cuda import library
from ember.backends.cuda.binding import BoundCalls
library.MAKERS.pop("matmul")  # cuBLAS is not emulated: the host's product takes its place
names, on_host = [], BoundCalls._by_host

def by_host(self, call):
    names.append(call.name)
    return on_host(self, call)

BoundCalls._by_host = by_host

def trained(how, make, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 3))
    model.to(device)
    optimizer = make(model.parameters())
    x, y = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3
    x, y = x.to(device), y.to(device)
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    step = how(step)
    return [float(step()) for _ in range(4)]

for make in (lambda p: torch.optim.AdamW(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, 0.9),
             lambda p: torch.optim.Adam(p, 0.1, fused=True)):
    right = trained(lambda f: f, make, "cpu")
    np.testing.assert_allclose(trained(lambda f: f, make, "cuda"), right, rtol=1e-4)
    np.testing.assert_allclose(trained(torch.compile, make, "cuda"), right, rtol=1e-4)
assert set(names) <= {"matmul"}, set(names)
print("done")
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_no_step_of_an_optimizer_goes_through_the_host(tmp_path):
    assert "done" in run(tmp_path, CODE)
