"""torch._foreach_*: lists of tensors; values recorded from PyTorch."""

import pytest

import ember as torch

T = torch.tensor


def lists():
    return [T([1.0, -2.0]), T([[3.0]])]


def values(tensors):
    return [t.tolist() for t in tensors]


@pytest.mark.parametrize(
    ("name", "args", "options", "expected"),
    [
        ("add", (1,), {}, [[2.0, -1.0], [[4.0]]]),
        ("add", (lists(),), {}, [[2.0, -4.0], [[6.0]]]),
        ("add", (lists(),), {"alpha": 2}, [[3.0, -6.0], [[9.0]]]),
        ("add", ([1, 2],), {}, [[2.0, -1.0], [[5.0]]]),
        ("add", (T(2.0),), {"alpha": 3}, [[7.0, 4.0], [[9.0]]]),
        ("sub", (lists(),), {"alpha": 2}, [[-1.0, 2.0], [[-3.0]]]),
        ("mul", ((1, 2.5),), {}, [[1.0, -2.0], [[7.5]]]),
        ("div", (T(2.0),), {}, [[0.5, -1.0], [[1.5]]]),
        ("pow", ([2, 3],), {}, [[1.0, 4.0], [[27.0]]]),
        ("clamp_min", (0,), {}, [[1.0, 0.0], [[3.0]]]),
        ("clamp_max", ([0, 1],), {}, [[0.0, -2.0], [[1.0]]]),
        ("maximum", (0.0,), {}, [[1.0, 0.0], [[3.0]]]),
        ("minimum", (lists(),), {}, [[1.0, -2.0], [[3.0]]]),
        ("addcmul", (lists(), lists()), {"value": 2}, [[3.0, 6.0], [[21.0]]]),
        ("addcmul", (lists(), lists(), [1, 2]), {}, [[2.0, 2.0], [[21.0]]]),
        ("addcmul", (lists(), lists(), T([1.0, 2.0])), {}, [[2.0, 2.0], [[21.0]]]),
        ("addcdiv", (lists(), lists(), -1), {}, [[0.0, -3.0], [[2.0]]]),
        ("lerp", ([T(5.0), T(6.0)], 0.5), {}, [[3.0, 1.5], [[4.5]]]),
        ("lerp", ([T(5.0), T(6.0)], [0.5, 0.0]), {}, [[3.0, 1.5], [[3.0]]]),
        ("neg", (), {}, [[-1.0, 2.0], [[-3.0]]]),
        ("sign", (), {}, [[1.0, -1.0], [[1.0]]]),
        ("abs", (), {}, [[1.0, 2.0], [[3.0]]]),
    ],
)
def test_each_and_written(name, args, options, expected):
    given = lists()
    made = getattr(torch, f"_foreach_{name}")(given, *args, **options)
    assert type(made) is tuple and values(made) == expected
    assert values(given) == values(lists())
    assert getattr(torch, f"_foreach_{name}_")(given, *args, **options) is given
    assert values(given) == expected


def test_the_rest():
    assert values(torch._foreach_norm(lists(), 1)) == [3.0, 3.0]
    assert torch._foreach_norm(lists(), 2, dtype=torch.float64)[0].dtype is torch.float64
    assert values(torch._foreach_max(lists())) == [1.0, 3.0]
    assert values(torch._foreach_powsum(lists(), 2)) == [5.0, 9.0]
    assert values(torch._foreach_pow(2, lists())) == [[2.0, 0.25], [[8.0]]]
    assert values(torch._foreach_mm([torch.eye(2)], [torch.ones(2, 2)])) == [[[1, 1], [1, 1]]]
    assert values(torch._foreach_clone(lists())) == values(lists())
    given = lists()
    torch._foreach_copy_(given, [T(9), T(8.0)])
    assert values(given) == [[9.0, 9.0], [[8.0]]]
    torch._foreach_zero_(given)
    assert values(given) == [[0.0, 0.0], [[0.0]]]
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    assert torch._foreach_add([T([1, 2])], 1.5)[0].tolist() == [2.5, 3.5]


def test_gradients():
    x = torch.ones(2, requires_grad=True)
    made = torch._foreach_mul([x, x], [2.0, 3.0])
    (made[0].sum() + made[1].sum()).backward()
    assert x.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("add", (lists(), [1]), RuntimeError, "same number of elements as scalar list"),
        ("add", (lists(), [T(1.0)]), RuntimeError, "same number of tensors, got 2 and 1"),
        ("add", ([], 1), RuntimeError, "must have at least one tensor"),
        ("add", (lists(), T([1.0, 2.0])), RuntimeError, "scalar tensor expected to be 0 dim"),
        ("add", (lists(), "a"), TypeError, "invalid combination of arguments"),
        ("exp", (3,), TypeError, "must be tuple of Tensors, not int"),
        ("exp", ([3],), TypeError, "expected Tensor as element 0 in argument 0, but got int"),
        ("mul", (lists(), [T(1.0), 2]), TypeError, "expected Tensor as element 1 in argument 1"),
        ("addcmul", (lists(), lists(), lists(), T([1.0])), RuntimeError, "Expected length of"),
        ("copy_", (lists(), [T(1.0)]), RuntimeError, "same number of tensors, got 2 and 1"),
        ("max", ([T([])],), RuntimeError, "cannot compute the maximum of an empty tensor"),
        ("sqrt_", ([T([1, 4])],), RuntimeError, "can't be cast to the desired output type"),
        ("lerp", ([T([1])], [T([2])], 0.5), NotImplementedError, "not implemented for 'Long'"),
    ],
)
def test_wrong_lists(name, args, error, message):
    with pytest.raises(error, match=message):
        getattr(torch, f"_foreach_{name}")(*args)


@pytest.mark.oracle
def test_every_name_of_pytorch_is_there():
    pytorch = pytest.importorskip("torch")
    names = [name for name in dir(pytorch) if name.startswith("_foreach_")]
    assert [name for name in names if not hasattr(torch, name)] == []
