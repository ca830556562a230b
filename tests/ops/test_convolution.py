"""Convolutions: errors, empty inputs, second derivatives."""

import pytest

import ember as torch
import ember.nn.functional as F
from ember.autograd import gradcheck, gradgradcheck

X, W = torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3)


def tensors(*shapes):
    made = []
    for place, shape in enumerate(shapes):
        count = 1
        for size in shape:
            count *= size
        values = (torch.arange(count, dtype=torch.float64) * 1.7 + place).sin()
        made.append(values.reshape(shape).requires_grad_())
    return made


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2), [(1, 2, 6), (2, 2, 2), (2,)]),
        (lambda x, w: F.conv2d(x, w, None, (2, 1), 1, 1, 2), [(1, 2, 3, 3), (2, 1, 2, 2)]),
        (lambda x, w: F.conv2d(x, w, padding="same"), [(1, 1, 3, 3), (1, 1, 2, 2)]),
        (lambda x, w: F.conv3d(x, w), [(1, 1, 2, 2, 2), (1, 1, 1, 2, 1)]),
        (
            lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1),
            [(1, 2, 3), (2, 1, 2), (1,)],
        ),
        (
            lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 2, 1, 3),
            [(1, 1, 2, 2), (1, 1, 2, 2)],
        ),
    ],
)
def test_first_and_second_derivatives(function, shapes):
    inputs = tensors(*shapes)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.conv2d(torch.ones(4, 4), W),
            RuntimeError,
            r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size",
        ),
        (
            lambda: F.conv2d(torch.ones(1, 3, 4, 4), W),
            RuntimeError,
            r"Given groups=1, weight of size \[3, 2, 3, 3\], expected input\[1, 3, 4, 4\] to have",
        ),
        (
            lambda: F.conv2d(torch.ones(1, 2, 2, 4), W),
            RuntimeError,
            r"padded input size per channel: \(2 x 4\). Kernel size: \(3 x 3\). Kernel size can't",
        ),
        (lambda: F.conv2d(X, W, stride=0), RuntimeError, "non-positive stride is not supported"),
        (lambda: F.conv2d(X, W, padding=-1), RuntimeError, "negative padding is not supported"),
        (lambda: F.conv2d(X, W, dilation=0), RuntimeError, "dilation should be greater than zero"),
        (lambda: F.conv2d(X, W, groups=0), RuntimeError, "non-positive groups is not supported"),
        (
            lambda: F.conv2d(X, W, groups=2),
            RuntimeError,
            "expected weight to be divisible by 2 at dimension 0",
        ),
        (
            lambda: F.conv2d(X, W, stride=(1, 2, 3)),
            RuntimeError,
            r"a list of 2 values to match the convolution dimensions, but got stride=\[1, 2, 3\]",
        ),
        (lambda: F.conv2d(X, W, stride=1.5), TypeError, "must be tuple of ints, not float"),
        (lambda: F.conv2d(X, W, padding="x"), RuntimeError, "Invalid padding string: 'x'"),
        (
            lambda: F.conv2d(X, W, padding="same", stride=2),
            RuntimeError,
            "padding='same' is not supported for strided convolutions",
        ),
        (
            lambda: F.conv2d(X, W, torch.ones(2)),
            RuntimeError,
            r"expected bias to be 1-dimensional with 3 elements, but got bias of size \[2\]",
        ),
        (lambda: F.conv2d(X, W.double()), RuntimeError, "expected scalar type Float but found Dou"),
        (
            lambda: F.conv2d(X, torch.ones(3, 2, 0, 1)),
            RuntimeError,
            "kernel size should be greater than zero",
        ),
        (
            lambda: F.conv_transpose2d(X, W),
            RuntimeError,
            "Given transposed=1, weight of size .* to have 3 channels, but got 2 channels",
        ),
        (
            lambda: F.conv_transpose2d(torch.ones(1, 3, 4, 4), W, output_padding=1),
            RuntimeError,
            "output padding must be smaller than either stride or dilation",
        ),
        (
            lambda: F.conv_transpose2d(torch.ones(1, 3, 1, 1), W, padding=2),
            RuntimeError,
            "Output size is too small",
        ),
        (
            lambda: F.conv_transpose2d(torch.ones(1, 3, 4, 4), W, padding="same"),
            TypeError,
            "argument 'padding' must be tuple of ints, not str",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_empty_batch_and_channels():
    assert F.conv2d(torch.ones(0, 2, 4, 4), W).shape == (0, 3, 2, 2)
    x = torch.ones(0, 2, 4, 4, requires_grad=True)
    F.conv2d(x, W).sum().backward()
    assert x.grad.shape == x.shape


def test_integers_and_half():
    assert F.conv2d(X.long(), W.long()).tolist() == F.conv2d(X, W).tolist()
    for dtype in (torch.float16, torch.bfloat16):
        result = F.conv2d(X.to(dtype), W.to(dtype))
        assert result.dtype == dtype
        assert result.float().tolist() == F.conv2d(X, W).tolist()


def test_transposed_convolution_is_the_adjoint():
    x, w, y = (t.detach() for t in tensors((1, 2, 7), (3, 2, 3), (1, 3, 3)))
    forward = (F.conv1d(x, w, stride=2) * y).sum()
    backward = (F.conv_transpose1d(y, w, stride=2) * x).sum()
    assert forward.item() == pytest.approx(backward.item())
