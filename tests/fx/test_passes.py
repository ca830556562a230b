"""Graph modules divided and fused."""

import pytest

import ember as torch
from ember import fx, nn
from ember.fx.experimental.optimization import fuse, remove_dropout
from ember.fx.passes.split_module import split_module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.p = nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        z = self.a(x + y)
        w = self.b(z).relu() + self.p
        return w.sum() + z.sum(), w


PART = {"add": 0, "a": 0, "b": 1, "relu": 1, "add_1": 1}


def test_splitting_gives_pytorchs_code():
    net = Net()
    split = split_module(fx.symbolic_trace(net), net, lambda node: PART.get(node.name, 2))
    assert split.code == (
        "\n\n\ndef forward(self, x, y):\n"
        "    p = self.p\n"
        "    submod_0 = self.submod_0(x, y);  x = y = None\n"
        "    submod_1 = self.submod_1(submod_0, p);  p = None\n"
        "    submod_2 = self.submod_2(submod_1, submod_0);  submod_0 = None\n"
        "    return (submod_2, submod_1)\n    "
    )
    assert split.submod_1.code == (
        "\n\n\ndef forward(self, a, p):\n"
        "    b = self.b(a);  a = None\n"
        "    relu = b.relu();  b = None\n"
        "    add = relu + p;  relu = p = None\n"
        "    return add\n    "
    )
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -1.0]])
    assert [r.tolist() for r in split(x, y)] == [r.tolist() for r in net(x, y)]
    assert split.p is net.p and split.submod_0.a is net.a


def test_parts_may_give_several_values_but_not_need_each_other():
    def function(x):
        a, b = x + 1, x * 2
        return torch.relu(a) - b

    traced = fx.symbolic_trace(function)
    split = split_module(traced, traced, lambda n: int(n.name in ("relu", "sub")))
    assert [n.name for n in split.graph.nodes if n.op == "call_function"] == [
        "getitem",
        "getitem_1",
    ]
    assert split(torch.tensor(3.0)).item() == -2.0
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(
            traced, traced, lambda n: int(n.name in ("relu", "mul", "add")) ^ (n.name == "add")
        )


def test_fusing_keeps_the_results():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3),
        nn.BatchNorm1d(3), nn.Dropout(),
    ).eval()  # fmt: skip
    with torch.no_grad():
        net[1].running_mean.copy_(torch.tensor([0.5, -1.0]))
        net[1].running_var.copy_(torch.tensor([2.0, 0.5]))
        net[5].weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    x = torch.linspace(-1, 1, 32).view(2, 1, 4, 4)
    fused = fuse(net)
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == [
        "0", "2", "3", "4", "6",
    ]  # fmt: skip
    assert torch.allclose(fused(x), net(x), atol=1e-5) and not hasattr(fused, "1")
    assert isinstance(net[1], nn.BatchNorm2d) and len(net) == 7
    plain = remove_dropout(net)
    assert "6" not in [n.target for n in plain.graph.nodes]
    assert plain(x).tolist() == net(x).tolist()
