"""Tensor subclasses over the same memory, and ops that can be pickled."""

import copy
import pickle

import pytest

import ember as torch


class Tagged(torch.Tensor):
    pass


def test_as_subclass_shares_memory_and_history():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    tagged = (x * 3).as_subclass(Tagged)
    assert type(tagged) is Tagged
    assert tagged.tolist() == [3.0, 6.0]
    tagged.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_make_subclass_is_a_leaf_over_the_same_memory():
    data = torch.zeros(2)
    made = torch.Tensor._make_subclass(Tagged, data, True)
    assert type(made) is Tagged and made.is_leaf and made.requires_grad
    data[0] = 5.0
    assert made.tolist() == [5.0, 0.0]


def test_other_classes_are_refused():
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        torch.zeros(1).as_subclass(int)


@pytest.mark.parametrize("name", ["add", "exp", "relu", "cat", "sum", "matmul"])
def test_ops_are_pickled_by_name(name):
    op = getattr(torch, name)
    assert pickle.loads(pickle.dumps(op)) is op
    assert copy.deepcopy(op) is op


def test_integers_beyond_int64_are_refused():
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        torch.tensor([2**63])
    assert torch.tensor([2**63 - 1]).tolist() == [2**63 - 1]
    assert torch.tensor([2**63], dtype=torch.uint64).tolist() == [2**63]
    assert torch.tensor([2**63], dtype=torch.float64).tolist() == [2.0**63]


@pytest.mark.parametrize("name", ["add_", "exp_", "negative_", "relu_", "dropout_"])
def test_functions_that_write_are_pickled_by_name(name):
    op = getattr(torch, name)
    assert pickle.loads(pickle.dumps(op)) is op
