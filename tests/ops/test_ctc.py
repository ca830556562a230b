"""`ctc_loss` against values that PyTorch gave, to the last digits of float32."""

import math

import numpy as np
import pytest

import ember as torch

F = torch.nn.functional
TARGETS = [[1, 2, 2], [3, 1, 0], [2, 0, 0]]
INPUTS, LENGTHS = [6, 5, 2], [3, 2, 1]
LOSSES = [5.479799747467041, 3.3214545249938965, 1.6111655235290527]
SECOND = [
    [-0.546785, 0.566705, 0.480645, -0.500564],
    [-0.013569, 0.274158, 0.563805, -0.824394],
    [-0.141468, -0.094519, 0.459792, -0.223805],
    [-0.039605, -0.520497, 0.402783, 0.15732],
    [-0.361111, -0.838839, 0.572119, 0.627831],
    [0.0, 0.0, 0.0, 0.0],
]


def _log_probs(dtype=torch.float32):
    x = (torch.arange(72, dtype=torch.float32).reshape(6, 3, 4) * 0.37).sin()
    return x.log_softmax(-1).detach().to(dtype).requires_grad_()


def test_losses_and_gradients():
    x = _log_probs()
    losses = F.ctc_loss(x, torch.tensor(TARGETS), INPUTS, LENGTHS, reduction="none")
    np.testing.assert_allclose(losses.tolist(), LOSSES, rtol=2e-7)
    (losses * torch.tensor([1.0, 2.0, 0.5])).sum().backward()
    np.testing.assert_allclose(x.grad[:, 1].tolist(), SECOND, atol=2e-6)
    third = [[-0.060464, 0.135275, -0.148066, 0.073254], [0.004667, 0.135653, -0.250935, 0.110615]]
    np.testing.assert_allclose(x.grad[:2, 2].tolist(), third, atol=2e-6)
    assert x.grad[2:, 2].abs().sum() == 0
    assert x.grad.sum(-1).abs().max() < 1e-5  # by the scores before log_softmax


def test_targets_one_after_another():
    x = _log_probs()
    joined = torch.tensor([1, 2, 2, 3, 1, 2])
    losses = F.ctc_loss(x, joined, INPUTS, LENGTHS, reduction="none")
    np.testing.assert_allclose(losses.tolist(), LOSSES, rtol=2e-7)


def test_other_dtypes():
    wide = F.ctc_loss(_log_probs(torch.float64), torch.tensor(TARGETS), INPUTS, LENGTHS)
    assert wide.dtype == torch.float64
    expected = np.mean(np.array(LOSSES) / LENGTHS)
    assert math.isclose(wide.item(), expected, rel_tol=1e-6)


def test_sequences_too_long_have_no_gradient_with_zero_infinity():
    x = _log_probs()
    losses = F.ctc_loss(
        x, torch.tensor(TARGETS), [2, 5, 2], LENGTHS, reduction="none", zero_infinity=True
    )
    assert losses[0].item() == 0
    losses.sum().backward()
    assert x.grad[:, 0].abs().sum() == 0
    assert x.grad.isfinite().all()


def test_there_is_no_second_derivative():
    x = _log_probs()
    loss = F.ctc_loss(x, torch.tensor(TARGETS), INPUTS, LENGTHS)
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for _ctc_loss_backward is not implemented"):
        first.sum().backward()
