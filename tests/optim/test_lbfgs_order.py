"""L-BFGS is PyTorch's operation by operation: on PyTorch's arithmetic it gives the same bits.

With Ember's own arithmetic 200 evaluations end elsewhere, as PyTorch's do with other kernels of its
own: the computation magnifies roundings. So the two files of the algorithm are run here with
PyTorch in the place of what they import.
"""

import builtins
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import ember

FOLDER = Path(ember.__file__).parent / "optim"


def on_torch(torch, name, **others):
    """A file of ember.optim with PyTorch in the place of what is below it."""
    below = {
        "ember.ops": SimpleNamespace(ops=torch),
        "ember.core.modes": SimpleNamespace(enable_grad=torch.enable_grad, no_grad=torch.no_grad),
        "ember.core.tensor": SimpleNamespace(Tensor=torch.Tensor),
        "ember.optim.optimizer": sys.modules[torch.optim.Optimizer.__module__],
        **others,
    }

    def find(module, *rest):
        return below[module] if module in below else builtins.__import__(module, *rest)

    space = {"__builtins__": {**vars(builtins), "__import__": find}, "__name__": f"on_torch.{name}"}
    source = (FOLDER / f"{name}.py").read_text()
    exec(compile(source, f"{name}.py", "exec"), space)
    return SimpleNamespace(**space)


def trained(torch, make, options):
    generator = torch.Generator().manual_seed(0)
    x, y, w, v = (
        torch.randn(shape, dtype=torch.float64, generator=generator)
        for shape in ((8, 4), (8, 3), (5, 4), (3, 5))
    )
    w, v = torch.nn.Parameter(w), torch.nn.Parameter(v)
    optimizer = make([w, v], **options)

    def closure():
        optimizer.zero_grad()
        loss = ((x @ w.t()).tanh() @ v.t() - y).pow(2).mean()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure).detach()) for _ in range(3)]
    return losses, w.tolist(), v.tolist(), repr(optimizer.state_dict())


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.01}, {"history_size": 3, "max_iter": 7}, {"line_search_fn": "strong_wolfe"}],
    ids=str,
)
def test_the_same_bits_on_the_same_arithmetic(options):
    torch = pytest.importorskip("torch")
    search = on_torch(torch, "line_search")
    ours = on_torch(torch, "lbfgs", **{"ember.optim.line_search": search}).LBFGS
    assert trained(torch, ours, options) == trained(torch, torch.optim.LBFGS, options)
