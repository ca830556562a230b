"""Gates and leaky activations whose slopes are drawn."""

import pytest

import ember as torch


def test_rrelu_draws_pytorchs_slopes_for_what_is_not_positive():
    torch.manual_seed(3)
    x = torch.tensor([-1.0, 2.0, -3.0, 0.0, 5.0], requires_grad=True)
    y = torch.nn.functional.rrelu(x, training=True)
    assert y.tolist() == pytest.approx([-0.13210587203502655, 2.0, -0.5542126297950745, 0.0, 5.0])
    assert torch.rand(2).tolist() == pytest.approx([0.7718658447265625, 0.7436993718147278])
    y.sum().backward()
    assert x.grad[0].item() == pytest.approx(0.13210587203502655) and x.grad[1] == x.grad[4] == 1
