"""Resizing: `interpolate` in all modes, and the older names for it."""

import math
import operator

import numpy as np

from ember.backends.library import Library
from ember.core.registry import F, composite, library_op
from ember.errors import check
from ember.ops.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from ember.ops.create import from_numpy
from ember.ops.formats import in_order_of
from ember.source_lines import warn

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}
_RANKS = {mode: rank for rank, mode in _LINEAR.items()}
_MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "lanczos", "area")
_SMOOTH = ("bilinear", "bicubic", "lanczos")


@library_op(Library.interpolate, follows=(0,))
def resampled(input, output_size, mode, align_corners, scales):
    """(N, C, *spatial) resized; a scale that is not None says where samples lie, not the sizes."""
    return input.spec.with_shape((*input.shape[:2], *output_size))


@library_op(Library.interpolate_backward, follows=(0,))
def resampled_backward(grad, input_shape, mode, align_corners, scales):
    """The adjoint of `resampled`."""
    return grad.spec.with_shape(tuple(input_shape))


resampled.grad = lambda g, input_spec, mode, align_corners, scales: resampled_backward(
    g, input_spec.shape, mode, align_corners, scales
)
resampled_backward.grad = lambda g, grad_spec, mode, align_corners, scales: resampled(
    g, grad_spec.shape[2:], mode, align_corners, scales
)


@composite(export=F)
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """(N, C, *spatial) resized to `size`, or by `scale_factor`.

    mode: "nearest", "nearest-exact", "area", or by rank "linear" (3), "bilinear", "bicubic" (4),
    "trilinear" (5); "lanczos" with `antialias`, which widens the filter when shrinking.
    `align_corners` puts the corner samples on each other. ValueError for arguments that exclude
    each other, NotImplementedError for a mode that the rank does not have.

    >>> import ember as torch
    >>> x = torch.tensor([[[1.0, 3.0]]])
    >>> torch.nn.functional.interpolate(x, scale_factor=2, mode="linear", align_corners=True)
    tensor([[[1.0000, 1.6667, 2.3333, 3.0000]]])
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, factors = _sizes_and_factors(input, size, scale_factor)
    if recompute_scale_factor:
        message = "recompute_scale_factor is not meaningful with an explicit size."
        check(factors is not None, ValueError, message)
    if sizes is None:
        sizes = tuple(math.floor(n * f) for n, f in zip(input.shape[2:], factors))
    scales = None if recompute_scale_factor or factors is None else tuple(map(float, factors))
    check(
        min(sizes) > 0 and min(input.shape[2:]) > 0,
        RuntimeError,
        lambda: (
            "Input and output sizes should be greater than 0, but got input "
            f"{tuple(input.shape[2:])} output {sizes}"
        ),
    )
    if mode == "area":
        return _AREA[input.dim()](input, sizes)
    check(
        input.size(1) > 0,
        RuntimeError,
        lambda: (
            f"Non-empty {input.dim()}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        ),
    )
    if antialias:
        return _filtered(input, sizes, mode, bool(align_corners), scales)
    scales = (None,) * len(sizes) if scales is None else scales
    return resampled(input, sizes, mode, bool(align_corners), scales)


def _check_mode(input, mode, align_corners, antialias):
    if mode in ("nearest", "nearest-exact", "area"):
        check(
            align_corners is None,
            ValueError,
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear",
        )
    if antialias:
        check(
            mode in _SMOOTH and input.dim() == 4,
            ValueError,
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input",
        )
    if mode == "lanczos":
        check(antialias, ValueError, "Lanczos mode requires antialias=True")
        message = "Lanczos mode does not support align_corners=True"
        check(not align_corners, ValueError, message)
    if mode in _RANKS and input.dim() in (3, 4, 5):
        check(
            input.dim() == _RANKS[mode],
            NotImplementedError,
            lambda: f"Got {input.dim()}D input, but {mode} mode needs {_RANKS[mode]}D input",
        )
    known = mode in (*_MODES, "nearest-exact")
    fits = input.dim() in ((4,) if mode in ("bicubic", "lanczos") else (3, 4, 5))
    check(
        known and fits,
        NotImplementedError,
        lambda: (
            "Input Error: Only 3D, 4D and 5D input Tensors supported "
            f"(got {input.dim()}D) for the modes: {' | '.join(_MODES)} | nearest-exact (got {mode})"
        ),
    )


def _sizes_and_factors(input, size, scale_factor):
    """(sizes, None) or (None, factors), one for each spatial dim."""
    check(
        size is None or scale_factor is None,
        ValueError,
        "only one of size or scale_factor should be defined",
    )
    check(
        size is not None or scale_factor is not None,
        ValueError,
        "either size or scale_factor should be defined",
    )
    count = input.dim() - 2
    name, short = ("output size", "size") if size is not None else ("scale_factor", "scale_factor")
    given = size if size is not None else scale_factor
    values = tuple(given) if isinstance(given, (tuple, list)) else (given,) * count
    check(
        len(values) == count,
        ValueError,
        lambda: (
            f"Input and {'output' if short == 'size' else name} must have the same number of "
            f"spatial dimensions, but got input with spatial dimensions of "
            f"{list(input.shape[2:])} and {name} of {'' if short == 'size' else 'shape '}{given}. "
            f"Please provide input tensor in (N, C, d1, d2, ...,dK) format and {name} in "
            f"{'(o1, o2, ...,oK)' if short == 'size' else '(s1, s2, ...,sK)'} format."
        ),
    )
    if size is None:
        return None, tuple(float(v) for v in values)
    try:
        return tuple(operator.index(v) for v in values), None
    except TypeError:
        raise TypeError(
            f"interpolate(): argument 'size' must be tuple of ints, not {size!r}"
        ) from None


def _triangle(x):
    return np.maximum(1 - x, 0)


def _cubic(x):
    """Keys' kernel with a = −1/2 (Keys, 1981)."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = -0.5 * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x):
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS = {"bilinear": (1, _triangle), "bicubic": (2, _cubic), "lanczos": (3, _lanczos)}


def _filter_matrix(size, wanted, mode, align_corners, factor):
    """The weights (wanted, size) by which new samples are sums of the old ones."""
    reach, function = _FILTERS[mode]
    scale = size / wanted if factor is None else 1 / factor
    if align_corners:
        scale = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    stretch = max(scale, 1.0)
    centers = scale * (np.arange(wanted) + 0.5)
    first = np.maximum((centers - reach * stretch + 0.5).astype(np.int64), 0)
    end = np.minimum((centers + reach * stretch + 0.5).astype(np.int64), size)
    places = np.arange(size)
    weights = function(np.abs(places - centers[:, None] + 0.5) / stretch)
    weights = np.where((places >= first[:, None]) & (places < end[:, None]), weights, 0)
    return weights / weights.sum(1, keepdims=True)


def _filtered(input, sizes, mode, align_corners, scales):
    """Each dim resized by a product with its weights."""
    out = input
    scales = (None, None) if scales is None else scales
    height, width = (
        from_numpy(_filter_matrix(n, m, mode, align_corners, f)).to(input.device, input.dtype)
        for n, m, f in zip(input.shape[2:], sizes, scales)
    )
    out = out @ width.transpose(0, 1)
    return in_order_of(input, height @ out)


@composite(export=F)
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of `interpolate`; warns."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(export=F)
def upsample_nearest(input, size=None, scale_factor=None):
    """`interpolate` to the nearest; warns."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(export=F)
def upsample_bilinear(input, size=None, scale_factor=None):
    """`interpolate` bilinearly with aligned corners; warns."""
    warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
