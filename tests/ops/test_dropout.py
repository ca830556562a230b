"""Dropout: PyTorch's draws, whole channels, errors."""

import pytest

import ember as torch
import ember.nn.functional as F


def test_draws_are_pytorch_s():
    torch.manual_seed(3)
    kept = F.dropout(torch.ones(12), 0.3)
    assert (kept != 0).int().tolist() == [1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert kept.max().item() == pytest.approx(1 / 0.7)


def test_alpha_dropout_keeps_mean_and_variance():
    torch.manual_seed(3)
    found = F.alpha_dropout(torch.arange(12.0).reshape(2, 3, 2), 0.3, training=True)
    assert found[0].flatten().tolist() == pytest.approx(
        [0.4541, 1.3150, -1.0595, 3.0369, -1.0595, 4.7589], abs=1e-4
    )
    x = torch.randn(20000)
    y = F.alpha_dropout(x, 0.2, training=True)
    assert abs(y.mean().item()) < 0.05 and abs(y.std().item() - 1) < 0.05


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.dropout1d, (6, 4, 5)),
        (F.dropout2d, (6, 4, 5, 2)),
        (F.dropout3d, (6, 4, 5, 2, 2)),
        (F.dropout1d, (24, 5)),
        (F.dropout3d, (24, 5, 2, 2)),
    ],
)
def test_whole_channels(function, shape):
    torch.manual_seed(1)
    channels = function(torch.ones(shape), 0.5).reshape(24, -1)
    seen = {tuple(sorted(set(row))) for row in channels.tolist()}
    assert seen == {(0.0,), (2.0,)}


def test_off_is_the_input_itself():
    x = torch.ones(2, 3)
    for function in (F.dropout, F.alpha_dropout, F.feature_alpha_dropout):
        assert function(x, 0.5, False) is x
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).tolist() == [[0] * 3] * 2


def test_in_place():
    x = torch.ones(100)
    torch.manual_seed(0)
    assert F.dropout(x, 0.5, True, True) is x
    assert 0 < (x == 0).sum().item() < 100
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        F.dropout(leaf, 0.5, True, True)


def test_the_gradient_is_the_noise():
    torch.manual_seed(0)
    x = torch.ones(50, requires_grad=True)
    y = F.dropout(x, 0.4)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_torch_functions_take_train():
    torch.manual_seed(3)
    mine = torch.dropout(torch.ones(5), 0.3, True).tolist()
    torch.manual_seed(3)
    assert mine == F.dropout(torch.ones(5), 0.3).tolist()
    x = torch.ones(2, 2)
    assert torch.feature_dropout_(x, 1.0, True) is x and x.sum().item() == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.dropout(torch.ones(2), 1.5), ValueError, "between 0 and 1, but got 1.5"),
        (lambda: F.dropout(torch.ones(2).long()), RuntimeError, "result type Float can't be cast"),
        (lambda: F.dropout1d(torch.ones(2)), RuntimeError, "Expected 2D or 3D input"),
        (
            lambda: F.feature_alpha_dropout(torch.ones(2), 0.5, True),
            RuntimeError,
            "Feature dropout requires at least 2 dimensions",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_ranks_that_are_warned_of():
    with pytest.warns(UserWarning, match="input is interpreted as shape"):
        F.dropout2d(torch.ones(1, 2, 3))
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout3d"):
        F.dropout3d(torch.ones(2, 3))
