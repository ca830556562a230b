"""Pooling modules: text, round trips, errors."""

import pytest

import ember as torch
from ember import nn


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (
            nn.MaxPool2d(3),
            "MaxPool2d(kernel_size=3, stride=3, padding=0, dilation=1, ceil_mode=False)",
        ),
        (nn.MaxUnpool2d(2), "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"),
        (nn.AvgPool1d(3), "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))"),
        (nn.AvgPool2d(3, 1), "AvgPool2d(kernel_size=3, stride=1, padding=0)"),
        (nn.LPPool1d(2, 3), "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"),
        (nn.AdaptiveAvgPool2d((2, None)), "AdaptiveAvgPool2d(output_size=(2, None))"),
        (nn.FractionalMaxPool2d(2, output_size=3), "FractionalMaxPool2d()"),
    ],
)
def test_text(module, text):
    assert repr(module) == text


def test_unpool_undoes_pool():
    x = torch.tensor([[[1.0, 5.0, 2.0, 3.0]]])
    values, indices = nn.MaxPool1d(2, return_indices=True)(x)
    assert nn.MaxUnpool1d(2)(values, indices).tolist() == [[[0, 5, 0, 3]]]
    assert nn.MaxUnpool1d(2)(values, indices, output_size=(1, 1, 5)).shape == (1, 1, 5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.FractionalMaxPool2d(2), "requires specifying either an output size, or"),
        (lambda: nn.FractionalMaxPool2d(2, 2, 0.5), "only one of output_size and output_ratio"),
        (lambda: nn.FractionalMaxPool3d(2, None, 1.5), "must be between 0 and 1 .got 1.5."),
    ],
)
def test_refused_arguments(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_fractional_pool_keeps_given_samples():
    pool = nn.FractionalMaxPool2d(2, 3, _random_samples=torch.tensor([[[0.2, 0.8]]]))
    assert "_random_samples" in pool.state_dict()
    x = torch.arange(64.0).reshape(1, 1, 8, 8)
    assert pool(x).tolist() == pool(x).tolist()
