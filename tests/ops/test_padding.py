"""Borders, sliding blocks and shuffles: errors, and that results own their memory."""

import pytest

import ember as torch
import ember.nn.functional as F
from ember.autograd import gradcheck, gradgradcheck

X = torch.arange(12.0).reshape(1, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.pad(X, (1,)), RuntimeError, "Padding length must be divisible by 2"),
        (lambda: F.pad(X, (1,) * 8), RuntimeError, "less than or equal to two times the input"),
        (lambda: F.pad(X, 1), TypeError, "must be tuple of ints, not int"),
        (lambda: F.pad(X, (1.5, 1)), TypeError, "found element of type float at pos 0"),
        (lambda: F.pad(X, (-3, -3)), RuntimeError, "negative"),
        (lambda: F.pad(X, (1, 1), "foo"), NotImplementedError, "Unrecognised padding mode foo"),
        (lambda: F.pad(X, (1, 1), "reflect", 1.0), RuntimeError, "doesn't take in value argument"),
        (
            lambda: F.pad(X, (1, 1, 1, 1, 1, 1), "reflect"),
            NotImplementedError,
            "Padding size 6 is not supported for 3D input tensor",
        ),
        (
            lambda: F.pad(X, (4, 0), "reflect"),
            RuntimeError,
            "Padding size should be less than the corresponding input dimension",
        ),
        (lambda: F.pad(X, (5, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda: F.pad(X[:, :0], (1, 1), "replicate"), RuntimeError, "non-zero dimensions"),
        (lambda: F.unfold(X.unsqueeze(0), 5), RuntimeError, "must be at least one"),
        (lambda: F.unfold(X.unsqueeze(0), 0), RuntimeError, "kernel size should be greater than"),
        (lambda: F.unfold(X.unsqueeze(0), 1, padding=-1), RuntimeError, "should be non-negative"),
        (
            lambda: F.fold(torch.ones(1, 5, 4), (3, 3), 2),
            RuntimeError,
            r"divisible by the product of kernel_size, but got input.size\(1\)=5",
        ),
        (
            lambda: F.fold(torch.ones(1, 4, 5), (3, 3), 2),
            RuntimeError,
            r"number of sliding blocks 2 \* 2 = 4, but got input.size\(2\)=5",
        ),
        (lambda: F.pixel_shuffle(X, 2), RuntimeError, "not divisible by 4"),
        (lambda: F.pixel_shuffle(X, 0), RuntimeError, "a positive upscale_factor, but got 0"),
        (lambda: F.pixel_unshuffle(X, 2), RuntimeError, "expects height to be divisible"),
        (lambda: F.pixel_shuffle(X[0], 2), RuntimeError, "at least 3 dimensions"),
        (lambda: F.channel_shuffle(X, 2), RuntimeError, "Got 3 channels and 2 groups"),
        (lambda: F.channel_shuffle(X[0], 1), RuntimeError, "input with > 2 dims"),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("amount", [(0, 0), (-1, 0), ()])
def test_the_result_never_shares_memory(amount):
    padded = F.pad(X, amount)
    assert padded.is_contiguous()
    padded += 100
    assert X.flatten().tolist() == list(range(12))


def test_dtypes_are_kept():
    for dtype in (torch.int64, torch.bool, torch.bfloat16):
        assert F.pad(X.to(dtype), (1, 1), value=1).dtype == dtype
    assert F.pad(torch.tensor([True]), (1, 0)).tolist() == [False, True]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pad(x, (1, 2, -1, 1)),
        lambda x: F.pad(x, (2, 1), "reflect"),
        lambda x: F.pad(x, (2, 1), "replicate"),
        lambda x: F.pad(x, (2, 1), "circular"),
        lambda x: F.unfold(x.unsqueeze(0), 2, padding=1),
        lambda x: F.fold(F.unfold(x.unsqueeze(0), 2), (3, 4), 2),
    ],
)
def test_first_and_second_derivatives(function):
    x = (X.double() * 1.3).sin().requires_grad_()
    assert gradcheck(function, (x,))
    assert gradgradcheck(lambda x: function(x * x), (x,))


def test_shuffles_undo_each_other():
    x = torch.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3)
    assert F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert F.channel_shuffle(F.channel_shuffle(x, 2), 4).tolist() == x.tolist()
