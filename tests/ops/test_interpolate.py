"""Resizing and sampling: errors, warnings, second derivatives."""

import math

import pytest

import ember as torch
import ember.nn.functional as F
from ember.autograd import gradcheck, gradgradcheck

IMAGE = torch.arange(20.0).reshape(1, 1, 4, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.interpolate(IMAGE), ValueError, "either size or scale_factor should be defined"),
        (lambda: F.interpolate(IMAGE, 2, 2.0), ValueError, "only one of size or scale_factor"),
        (
            lambda: F.interpolate(IMAGE, (2, 2, 2)),
            ValueError,
            r"spatial dimensions of \[4, 5\] and output size of \(2, 2, 2\)",
        ),
        (
            lambda: F.interpolate(IMAGE, scale_factor=(2,)),
            ValueError,
            r"Input and scale_factor must have the same number .* scale_factor of shape \(2,\)",
        ),
        (lambda: F.interpolate(IMAGE, 0), RuntimeError, "sizes should be greater than 0"),
        (lambda: F.interpolate(IMAGE, 2.5), TypeError, "must be tuple of ints"),
        (lambda: F.interpolate(IMAGE, 2, mode="linear"), NotImplementedError, "Got 4D input, but"),
        (lambda: F.interpolate(IMAGE, 2, mode="foo"), NotImplementedError, r"\(got foo\)"),
        (
            lambda: F.interpolate(IMAGE, 2, align_corners=True),
            ValueError,
            "align_corners option can only be set with the interpolating modes",
        ),
        (
            lambda: F.interpolate(IMAGE, 2, antialias=True),
            ValueError,
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos",
        ),
        (lambda: F.interpolate(IMAGE, 2, mode="lanczos"), ValueError, "requires antialias=True"),
        (
            lambda: F.interpolate(IMAGE, 2, recompute_scale_factor=True),
            ValueError,
            "not meaningful with an explicit size",
        ),
        (
            lambda: F.grid_sample(IMAGE, torch.zeros(2, 1, 1, 2), align_corners=False),
            RuntimeError,
            "expected grid and input to have same batch size",
        ),
        (
            lambda: F.grid_sample(IMAGE, torch.zeros(1, 1, 1, 3), align_corners=False),
            RuntimeError,
            "expected grid to have size 2 in last dimension",
        ),
        (
            lambda: F.grid_sample(IMAGE, torch.zeros(1, 1, 1, 2), "foo", align_corners=False),
            ValueError,
            "expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'foo'",
        ),
        (
            lambda: F.grid_sample(
                IMAGE, torch.zeros(1, 1, 1, 2), padding_mode="x", align_corners=False
            ),
            ValueError,
            "expected padding_mode to be 'zeros', 'border', or 'reflection', but got: 'x'",
        ),
        (
            lambda: F.affine_grid(torch.zeros(1, 2, 2), (1, 1, 2, 2), True),
            ValueError,
            "Expected a batch of 2D affine matrices of shape Nx2x3",
        ),
        (
            lambda: F.affine_grid(torch.zeros(1, 2, 3), (1, 1, 0, 2), True),
            ValueError,
            "Expected non-zero, positive output size",
        ),
        (
            lambda: F.affine_grid(torch.zeros(1, 2, 3), (1, 2), True),
            NotImplementedError,
            "affine_grid only supports 4D and 5D sizes",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_defaults_that_changed_are_warned_of():
    for call in (
        lambda: F.grid_sample(IMAGE, torch.zeros(1, 1, 1, 2)),
        lambda: F.affine_grid(torch.zeros(1, 2, 3), (1, 1, 2, 2)),
    ):
        with pytest.warns(UserWarning, match="behavior has changed to align_corners=False"):
            call()
    with pytest.warns(UserWarning, match="`nn.functional.upsample` is deprecated"):
        assert F.upsample(IMAGE, 2).shape == (1, 1, 2, 2)


def test_recomputed_factors_move_the_samples():
    x = torch.arange(5.0).reshape(1, 1, 5)
    given = F.interpolate(x, scale_factor=1.7).flatten().tolist()
    recomputed = F.interpolate(x, scale_factor=1.7, recompute_scale_factor=True).flatten().tolist()
    assert given == [0, 0, 1, 1, 2, 2, 3, 4]
    assert recomputed == [0, 0, 1, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_first_and_second_derivatives(mode):
    x = torch.arange(12.0, dtype=torch.float64).sin().reshape(1, 1, 3, 4).requires_grad_()
    assert gradcheck(lambda x: F.interpolate(x, (4, 3), mode=mode), (x,))
    assert gradgradcheck(lambda x: F.interpolate(x, (4, 3), mode=mode), (x,))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_derivatives_by_places(mode, padding):
    x = torch.arange(12.0, dtype=torch.float64).sin().reshape(1, 1, 3, 4).requires_grad_()
    places = [[-0.61, 0.13], [0.27, -1.31], [1.21, 0.83], [-0.03, 0.42]]
    grid = torch.tensor([[places]], dtype=torch.float64, requires_grad=True)
    sample = lambda x, g: F.grid_sample(x, g, mode, padding, align_corners=False)  # noqa: E731
    assert gradcheck(sample, (x, grid))


def test_places_that_are_no_numbers():
    grid = torch.tensor([[[[math.nan, 0.0], [math.inf, 0.0], [5.0, 0.0]]]])
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    border = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
    assert border.flatten().tolist() == [2, 3, 3]
    zeros = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    assert zeros.flatten().tolist() == [0, 0, 0]
