"""`torch.ops`: ATen's operators by their names, and namespaces without any."""

import copy

import pytest

import ember as torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("add.Tensor", (x, x), [[2.0, 4.0], [6.0, 8.0]]),
        ("mm", (x, x), [[7.0, 10.0], [15.0, 22.0]]),
        ("sum.dim_IntList", (x, [0]), [4.0, 6.0]),
        ("view", (x, [4]), [1.0, 2.0, 3.0, 4.0]),
        ("slice.Tensor", (x, 1, 1, 2), [[2.0], [4.0]]),
        ("index.Tensor", (x, [None, torch.tensor([1])]), [[2.0], [4.0]]),
        ("unsqueeze", (x, 0), [[[1.0, 2.0], [3.0, 4.0]]]),
        ("_softmax", (torch.zeros(2), 0, False), [0.5, 0.5]),
        ("linalg_det", (torch.eye(2),), 1.0),
        ("where.self", (x > 2, x, torch.zeros(2, 2)), [[0.0, 0.0], [3.0, 4.0]]),
        ("embedding", (x, torch.tensor([1])), [[3.0, 4.0]]),
        ("alias", (x,), [[1.0, 2.0], [3.0, 4.0]]),
        ("relu", (torch.tensor([-1.0, 2.0]),), [0.0, 2.0]),
        ("native_layer_norm", (torch.tensor([[-1.0, 1.0]]), [2], None, None, 0.0), [[-1.0, 1.0]]),
    ],
)
def test_aten_by_name(name, args, value):
    operator = torch.ops.aten
    for part in name.split("."):
        operator = getattr(operator, part)
    found = operator(*args)
    found = found[0] if isinstance(found, tuple) else found
    assert torch.allclose(found, torch.tensor(value))


def test_aten_convolution():
    image, weight = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)
    run = torch.ops.aten.convolution.default
    made = run(image, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    assert made.tolist() == [[[[4.0, 4.0], [4.0, 4.0]]]]


def test_sizes_and_copies():
    assert torch.ops.aten.sym_size(x, 1) == 2 and torch.ops.aten.sym_size(x) == [2, 2]
    assert torch.ops.aten._to_copy(x, dtype=torch.int64).dtype is torch.int64
    assert torch.ops.aten._local_scalar_dense(x.sum()) == 10.0


def test_names_and_shapes_of_operators():
    add = torch.ops.aten.add
    assert repr(add) == "<OpOverloadPacket(op='aten.add')>" and str(add) == "aten.add"
    assert add.Tensor is add.Tensor and add.Tensor.overloadpacket is add
    assert add.Tensor.name() == "aten::add.Tensor" and str(add.Tensor) == "aten.add.Tensor"
    assert add.Tensor.namespace == "aten" and add.Tensor.__name__ == "add.Tensor"
    assert copy.deepcopy(add.Tensor) is add.Tensor
    assert add.Tensor._schema.name == "aten::add"


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'zzz'"):
        torch.ops.aten.zzz
    with pytest.raises(AttributeError, match="The underlying op of 'aten.add' has no overload"):
        torch.ops.aten.add.nonsense
    assert not hasattr(torch.ops.some_extension, "kernel")
    with pytest.raises(OSError, match="Could not load this library: /x/y.so"):
        torch.ops.load_library("/x/y.so")
