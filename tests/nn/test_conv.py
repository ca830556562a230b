"""Convolution modules: first weights, output sizes, lazy ones, errors."""

import copy
import pickle

import pytest

import ember as torch
from ember import nn


def test_first_weights_are_pytorch_s():
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 1, 2)
    assert conv.weight.flatten().tolist() == pytest.approx(
        [-0.0037, 0.2682, -0.4115, -0.3680], abs=1e-4
    )
    assert conv.bias.tolist() == pytest.approx([-0.1926], abs=1e-4)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=0), ValueError, "groups must be a positive integer"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by gro"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible by gr"),
        (lambda: nn.Conv2d(4, 3, 3, padding="x"), ValueError, "Invalid padding string 'x', should"),
        (
            lambda: nn.Conv2d(4, 3, 3, padding="same", stride=2),
            ValueError,
            "padding='same' is not supported for strided convolutions",
        ),
        (lambda: nn.Conv2d(4, 3, 3, padding_mode="x"), ValueError, "padding_mode must be one of"),
        (
            lambda: nn.ConvTranspose2d(4, 3, 3, padding_mode="reflect"),
            ValueError,
            'Only "zeros" padding mode is supported for ConvTranspose2d',
        ),
    ],
)
def test_refused_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_output_size_of_a_transposed_convolution():
    conv = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = torch.zeros(1, 2, 4, 4)
    for size in ((10, 9), [1, 3, 9, 10], torch.Size([1, 3, 9, 9])):
        assert conv(x, output_size=size).shape[2:] == tuple(size)[-2:]
    with pytest.raises(ValueError, match=r"valid sizes range from \[9, 9\] to \[10, 10\]"):
        conv(x, output_size=(8, 9))
    with pytest.raises(ValueError, match="for 4D input, output_size must have 2 or 4 elements"):
        conv(x, output_size=(1, 9, 9))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("Conv1d", (1, 2, 5)),
        ("Conv2d", (1, 2, 5, 5)),
        ("Conv3d", (1, 2, 5, 5, 5)),
        ("ConvTranspose1d", (1, 2, 5)),
        ("ConvTranspose2d", (2, 5, 5)),
        ("ConvTranspose3d", (1, 2, 3, 3, 3)),
    ],
)
def test_lazy_convolutions(kind, shape):
    lazy = getattr(nn, f"Lazy{kind}")(4, 3, padding=1)
    assert lazy.has_uninitialized_params() and list(lazy.state_dict()) == ["weight", "bias"]
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        lazy.weight.shape
    lazy(torch.zeros(shape))
    plain = getattr(nn, kind)(2, 4, 3, padding=1)
    assert type(lazy) is type(plain) and repr(lazy) == repr(plain)
    assert lazy.weight.shape == plain.weight.shape and lazy.bias.shape == (4,)


def test_lazy_errors():
    with pytest.raises(RuntimeError, match="input to LazyConv2d, but got input of size"):
        nn.LazyConv2d(4, 3)(torch.zeros(5, 5))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 3, groups=2)(torch.zeros(1, 3, 5, 5))


def test_copies_and_pickles():
    conv = nn.Conv1d(1, 2, 3, padding="same", padding_mode="circular")
    x = torch.arange(6.0).reshape(1, 1, 6)
    for again in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert again(x).tolist() == conv(x).tolist()
