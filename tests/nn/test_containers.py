"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import ember as torch
from ember import nn


def three():
    return [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]


def kinds(container):
    return [type(module).__name__ for module in container]


def test_sequential_calls_in_order_and_by_name():
    net = nn.Sequential(OrderedDict(up=nn.Linear(1, 2), act=nn.ReLU()))
    assert [n for n, _ in net.named_children()] == ["up", "act"] and net.act is net[1]
    assert net(torch.ones(3, 1)).shape == (3, 2)
    assert nn.Sequential()(5) == 5
    with pytest.raises(TypeError, match="dict is not a Module subclass"):
        nn.Sequential({"a": nn.ReLU()})


def test_sequential_indexing():
    net = nn.Sequential(*three())
    assert type(net[-1]) is nn.Sigmoid and len(net) == 3
    assert list(net[1:]._modules) == ["1", "2"] and type(net[1:]) is nn.Sequential
    net[1] = nn.ELU()
    assert kinds(net) == ["ReLU", "ELU", "Sigmoid"]
    del net[0]
    assert list(net._modules) == ["0", "1"] and kinds(net) == ["ELU", "Sigmoid"]
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            net[index]
    with pytest.raises(TypeError):
        net["0"]


def test_sequential_growing():
    net = nn.Sequential(nn.ReLU())
    assert net.append(nn.Tanh()) is net
    assert kinds(net.insert(1, nn.ELU())) == ["ReLU", "ELU", "Tanh"]
    assert kinds(net.extend([nn.GELU()])) == ["ReLU", "ELU", "Tanh", "GELU"]
    assert type(net.pop(-1)) is nn.GELU
    assert kinds(net + nn.Sequential(nn.SiLU())) == ["ReLU", "ELU", "Tanh", "SiLU"]
    assert kinds(net * 2) == kinds(2 * net) == ["ReLU", "ELU", "Tanh"] * 2
    net += nn.Sequential(nn.SiLU())
    net *= 2
    assert len(net) == 8 and net[4] is net[0]
    with pytest.raises(IndexError, match="Index out of range: 99"):
        net.insert(99, nn.ReLU())
    with pytest.raises(AssertionError, match="module should be of type"):
        net.insert(0, 3)
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        net + 3
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0


def test_module_list():
    layers = nn.ModuleList(three())
    assert kinds(layers) == ["ReLU", "Tanh", "Sigmoid"] and type(layers[1:]) is nn.ModuleList
    layers.insert(1, nn.ELU())
    layers[-1] = nn.GELU()
    del layers[0]
    assert kinds(layers) == ["ELU", "Tanh", "GELU"] and list(layers._modules) == ["0", "1", "2"]
    assert kinds(layers + [nn.SiLU()]) == ["ELU", "Tanh", "GELU", "SiLU"]
    layers += [nn.ReLU()]
    assert type(layers.pop(0)) is nn.ELU and kinds(layers.append(nn.ReLU()))[-1] == "ReLU"
    assert len(layers.extend(nn.ReLU() for _ in range(2))) == 6
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable"):
        nn.ModuleList(3)
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        layers(1)


def test_module_list_repr_gathers_equal_lines():
    layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU(), None])
    assert repr(layers) == (
        "ModuleList(\n"
        "  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n"
        "  (2): ReLU()\n"
        "  (3): None\n"
        ")"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"
    nested = nn.ModuleList([nn.Sequential(nn.ReLU()) for _ in range(2)])
    assert repr(nested) == "ModuleList(\n  (0-1): 2 x Sequential(\n    (0): ReLU()\n  )\n)"


def test_module_dict():
    choices = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert list(choices) == ["a", "b"] and "a" in choices and len(choices) == 2
    choices.update([("c", nn.ELU())])
    choices["a"] = nn.GELU()
    assert [type(m).__name__ for m in choices.values()] == ["GELU", "Tanh", "ELU"]
    assert list(choices.keys()) == ["a", "b", "c"] and choices.pop("b").__class__ is nn.Tanh
    assert [k for k, _ in choices.items()] == ["a", "c"]
    choices.clear()
    assert len(choices) == 0
    for bad, error, message in (
        (3, TypeError, "ModuleDict.update should be called with an iterable of key/value pairs"),
        ([("a",)], ValueError, "ModuleDict update sequence element #0 has length 1; 2 is required"),
        ({"a": 3}, TypeError, "int is not a Module subclass"),
        ({"a.b": nn.ReLU()}, KeyError, "t contain"),
        ({"keys": nn.ReLU()}, KeyError, "attribute 'keys' already exists"),
    ):
        with pytest.raises(error, match=message):
            nn.ModuleDict(bad)


def test_parameter_list():
    weights = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(1), 3])
    assert isinstance(weights[1], nn.Parameter) and weights[-1] == 3 and len(weights) == 3
    assert list(weights.state_dict()) == ["0", "1"] and len(list(weights)) == 3
    assert repr(weights) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 2]\n"
        "    (1): Parameter containing: [torch.float32 of size 1]\n"
        "    (2): Object of type: int\n"
        ")"
    )
    weights[2] = torch.ones(2, 3)
    weights += [torch.ones(1)]
    assert len(weights.append(torch.ones(1))) == 5 and len(weights[1:3]) == 2
    assert weights[2].shape == (2, 3) and weights[2].requires_grad
    with pytest.raises(TypeError, match="ParameterList.extend should be called with an iterable"):
        weights.extend(torch.ones(2))
    with pytest.raises(IndexError, match="index 9 is out of range"):
        weights[9]
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        weights(1)


def test_parameter_dict():
    weights = nn.ParameterDict({"b": torch.ones(2), "a": torch.zeros(1), "c": 3})
    assert list(weights) == ["a", "b", "c"] and list(weights.state_dict()) == ["a", "b"]
    assert isinstance(weights["a"], nn.Parameter) and weights.get("z", 4) == 4
    assert list(nn.ParameterDict(OrderedDict(b=torch.ones(1), a=torch.ones(1)))) == ["b", "a"]
    assert repr(weights) == (
        "ParameterDict(\n"
        "    (a): Parameter containing: [torch.FloatTensor of size 1]\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 2]\n"
        "    (c): Object of type: int\n"
        ")"
    )
    assert weights.popitem() == ("c", 3) and weights.setdefault("a") is weights["a"]
    joined = weights | {"d": torch.ones(4)}
    assert list(joined) == ["a", "b", "d"] and list(weights) == ["a", "b"]
    weights |= nn.ParameterDict({"e": torch.ones(1)})
    assert list(reversed(weights)) == ["e", "b", "a"] and weights.pop("e").shape == (1,)
    assert list(weights.fromkeys(["x", "y"], torch.ones(1))) == ["x", "y"]
    assert weights.copy()["a"] is weights["a"]
    del weights["a"]
    weights.clear()
    assert len(weights) == 0 and list(weights.parameters()) == []
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        weights[1] = torch.ones(1)
    with pytest.raises(RuntimeError, match="ParameterDict should not be called."):
        weights(1)


def test_deprecated_container():
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        assert list(nn.Container(a=nn.ReLU())._modules) == ["a"]
