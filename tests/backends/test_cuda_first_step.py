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


DROPOUT = """
for dtype, atol in ((torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float64, 1e-12)):
    for p in (0.1, 0.5):
        x = torch.linspace(-2, 3, 999).to(dtype).cuda().requires_grad_()
        torch.manual_seed(3)
        y = F.dropout(x, p)
        torch.manual_seed(3)
        drawn = torch.empty_like(x).bernoulli_(1 - p)
        right = x.detach().double() * drawn.double() / (1 - p)
        np.testing.assert_allclose(values(y.double()), values(right), rtol=atol, atol=0)
        assert 0.6 * p < 1 - values(drawn.float()).mean() < 1.4 * p
        y.backward(torch.full_like(y, 2.0))
        np.testing.assert_allclose(
            values(x.grad.double()), values(2 * drawn.double() / (1 - p)), rtol=atol)
        count = driver.launches
        F.dropout(x.detach(), p)
        assert driver.launches - count == 2  # what is drawn, and the product
image = torch.ones(2, 3, 4, 4, device="cuda", requires_grad=True)
channels = F.dropout2d(image, 0.5)
assert all(len(set(c.reshape(-1).tolist())) == 1 for c in channels.detach().flatten(0, 1))
inside = torch.ones(50, device="cuda")
assert F.dropout(inside, 0.5, inplace=True) is inside and set(inside.tolist()) == {0.0, 2.0}
print("done")
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_dropout_is_two_kernels(tmp_path):
    assert "done" in run(tmp_path, DROPOUT)
