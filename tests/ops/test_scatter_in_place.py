"""Scattering into a tensor that its own gradient would read: as libraries of graphs do."""

import pytest

import ember as torch

INDEX = torch.tensor([0, 0, 1])


@pytest.mark.parametrize(
    ("reduce", "by_input", "by_src"),
    [
        ("sum", [12.0, 14.0, 6.0], [12.0, 12.0, 14.0]),
        ("mean", [4 / 3, 7 / 2, 6.0], [4 / 3, 4 / 3, 7 / 2]),
        ("amax", [0.0, 0.0, 6.0], [0.0, 6.0, 10.0]),
        ("amin", [2.0, 4.0, 6.0], [0.0, 0.0, 0.0]),
        ("prod", [72.0, 100.0, 6.0], [36.0, 24.0, 40.0]),
    ],
)
def test_gradients_of_scatter_reduce(reduce, by_input, by_src):
    start = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    src = torch.tensor([2.0, 3.0, 5.0], requires_grad=True)
    made = start.clone()
    assert made.scatter_reduce_(0, INDEX, src, reduce) is made
    (made**2).sum().backward()
    assert start.grad.tolist() == pytest.approx(by_input)
    assert src.grad.tolist() == pytest.approx(by_src)


def test_gradients_of_scatter_add_and_scatter():
    src = torch.ones(3, requires_grad=True)
    made = torch.ones(3).scatter_add_(0, INDEX, src * 2)
    (made**2).sum().backward()
    assert made.tolist() == [5.0, 3.0, 1.0] and src.grad.tolist() == [20.0, 20.0, 12.0]
    src = torch.ones(4, requires_grad=True)
    torch.zeros(3).scatter_(0, torch.tensor([0, 2]), src).sum().backward()
    assert src.grad.tolist() == [1.0, 1.0, 0.0, 0.0]
