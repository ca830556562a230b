"""Members of modules by their names."""

import pytest

import ember as torch
from ember.nn.utils._named_member_accessor import NamedMemberAccessor, swap_submodule, swap_tensor


def test_tensors_are_exchanged():
    linear = torch.nn.Linear(2, 2)
    weight = linear.weight
    assert swap_tensor(linear, "weight", torch.ones(2, 2)) is weight
    assert type(linear.weight) is torch.Tensor and "weight" in linear._parameters
    assert swap_tensor(linear, "weight", weight).sum() == 4
    assert linear.weight is weight
    before = swap_tensor(linear, "extra", torch.ones(1), allow_missing=True)
    assert not isinstance(before, torch.Tensor)
    swap_tensor(linear, "extra", before)
    assert not hasattr(linear, "extra")


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("zz", torch.ones(1), AttributeError, "Linear has no attribute `zz`"),
        ("a.b", torch.ones(1), KeyError, "tensor name can"),
        ("", torch.ones(1), KeyError, "be empty string"),
        ("forward", torch.ones(1), TypeError, "attribute `forward`: .* is not an instance"),
        ("weight", 3, TypeError, "3 is not an instance of torch.Tensor"),
    ],
)
def test_errors(name, value, kind, message):
    with pytest.raises(kind, match=message):
        swap_tensor(torch.nn.Linear(2, 2), name, value)


def test_members_of_submodules():
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
    access = NamedMemberAccessor(net)
    kept = net[0].bias
    before, missing = access.swap_tensors_dict({"0.bias": torch.ones(1), "1.weight": torch.ones(1)})
    assert before["0.bias"] is kept and missing == []
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): '0.none'"):
        access.swap_tensors_dict({"0.bias": kept, "0.none": kept})
    assert access.get_tensor("0.bias").tolist() == [1.0] and not hasattr(net[0], "none")
    access.set_tensors_dict(before)
    assert net[0].bias is kept
    names = [name for name, _ in access.named_tensors()]
    assert access.check_keys(["x", *names[1:]]) == (["0.weight"], ["x"])
    with pytest.raises(AttributeError, match="Sequential has no attribute `7`"):
        access.get_tensor("7.weight")
    other = torch.nn.Linear(2, 1)
    assert access.swap_submodule("0", other) is not other and net[0] is other
    access.del_tensor("0.bias")
    assert "bias" not in net[0]._parameters
    with pytest.raises(KeyError, match="submodule 9 does not exist"):
        swap_submodule(net, "9", other)
