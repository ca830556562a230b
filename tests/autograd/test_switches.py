"""Switches of backward that change nothing here."""

import pytest

import ember as torch
from ember.autograd.variable import Variable


@pytest.mark.parametrize("name", ["set_multithreading_enabled", "enforce_grad_layout_policy"])
def test_switches_leave_gradients_alone(name):
    x = torch.ones(2, requires_grad=True)
    switch = getattr(torch.autograd, name)
    with switch(False):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]

    @switch(False)
    def decorated():
        return 1

    assert decorated() == 1


def test_variable():
    assert Variable is torch.Tensor
    from ember.autograd.switches import variable

    assert variable.Variable is torch.Tensor
    with pytest.raises(RuntimeError, match=r"use torch.tensor\(...\) instead"):
        variable(1)
