"""Pools: errors, special values, second derivatives."""

import math

import pytest

import ember as torch
import ember.nn.functional as F
from ember.autograd import gradcheck, gradgradcheck


def spread(*shape):
    """Distinct values in no order, so that no window has two greatest."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float64) * 0.37 * count % count).reshape(shape)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: F.max_pool1d(x, 3, 1), (1, 2, 5)),
        (lambda x: F.max_pool2d(x, 2, 1, 1), (1, 1, 3, 3)),
        (lambda x: F.max_pool3d(x, (1, 2, 2)), (1, 1, 2, 2, 2)),
        (lambda x: F.avg_pool1d(x, 3, 1, 1, True, False), (1, 2, 5)),
        (lambda x: F.avg_pool2d(x, 2, 1, divisor_override=3), (1, 1, 3, 3)),
        (lambda x: F.avg_pool3d(x, 2), (1, 1, 2, 2, 2)),
        (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (1, 1, 3, 4)),
        (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (1, 1, 3, 4)),
        (lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), (1, 2, 4)),
    ],
)
def test_first_and_second_derivatives(function, shape):
    x = spread(*shape).requires_grad_()
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_max_pool_passes_nan_on_and_ignores_the_border():
    x = torch.tensor([[[-1.0, math.nan, -2.0, -3.0]]])
    values = F.max_pool1d(x, 2, 2, 1).flatten().tolist()
    assert values[0] == -1 and math.isnan(values[1]) and values[2] == -3
    _, indices = F.max_pool1d(torch.ones(1, 1, 4), 2, return_indices=True)
    assert indices.tolist() == [[[0, 2]]]


def test_gradient_goes_to_the_first_of_equals():
    x = torch.ones(1, 1, 3, requires_grad=True)
    F.max_pool1d(x, 3).sum().backward()
    assert x.grad.tolist() == [[[1, 0, 0]]]


IMAGE = torch.ones(1, 2, 4, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.max_pool2d(IMAGE, (2, 2, 2)),
            RuntimeError,
            "kernel_size must either be a single int, or a tuple of two ints",
        ),
        (lambda: F.max_pool2d(IMAGE, 2.0), TypeError, "must be tuple of ints, not float"),
        (
            lambda: F.max_pool2d(IMAGE, 3, padding=2),
            RuntimeError,
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=3",
        ),
        (lambda: F.max_pool2d(IMAGE, 3, padding=-1), RuntimeError, "pad must be non-negative"),
        (lambda: F.max_pool2d(IMAGE, 2, 0), RuntimeError, "stride should not be zero"),
        (lambda: F.max_pool2d(IMAGE, 5), RuntimeError, "Output size is too small"),
        (lambda: F.max_pool2d(torch.ones(4, 4), 2), RuntimeError, "3D or 4D"),
        (lambda: F.max_pool2d(IMAGE[:, :0], 2), RuntimeError, r"non-empty.*\[1, 0, 4, 4\]"),
        (
            lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0),
            RuntimeError,
            "divisor must be not ze",
        ),
        (lambda: F.avg_pool1d(torch.ones(4), 2), RuntimeError, "Expected 2 to 3 dimensions"),
        (lambda: F.adaptive_avg_pool2d(IMAGE, (1, 2, 3)), RuntimeError, "output_size must be 2"),
        (lambda: F.adaptive_avg_pool2d(IMAGE, -1), RuntimeError, "greater than or equal to 0"),
        (lambda: F.adaptive_max_pool1d(torch.ones(2, 4), None), TypeError, "not NoneType"),
        (
            lambda: F.adaptive_max_pool2d(IMAGE[:, :0], 1),
            RuntimeError,
            "Expected input to have non-zero size for non-batch dimensions",
        ),
        (
            lambda: F.max_unpool1d(torch.ones(1, 2), torch.tensor([[0, 9]]), 2),
            RuntimeError,
            r"Found an invalid max index: 9 \(output volumes are of size 4\)",
        ),
        (
            lambda: F.max_unpool1d(torch.ones(1, 2), torch.tensor([[0.0, 1.0]]), 2),
            RuntimeError,
            "elements in indices should be type int64 but got: Float",
        ),
        (
            lambda: F.max_unpool1d(torch.ones(1, 2), torch.tensor([[0, 2]]), 2, output_size=(9,)),
            ValueError,
            r'invalid output_size "\(9,\)" \(dim 0 must be between 2 and 6\)',
        ),
        (lambda: F.fractional_max_pool2d(IMAGE, 2), ValueError, "requires specifying either an"),
        (lambda: F.fractional_max_pool2d(IMAGE, 2, 4), RuntimeError, "too large relative to input"),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_fractional_pool_draws_its_places():
    torch.manual_seed(0)
    x = torch.arange(81.0).reshape(1, 1, 9, 9)
    found = {tuple(F.fractional_max_pool2d(x, 2, 4).flatten().tolist()) for _ in range(20)}
    assert len(found) > 1
    assert all(values[-1] == 80 for values in found)
