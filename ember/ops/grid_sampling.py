"""Sampling at given places: `affine_grid` makes the places, `grid_sample` reads there."""

import itertools
import math

import numpy as np

from ember.core.registry import FUNCTION, F, composite
from ember.core.second_order import flat_beyond
from ember.dtypes import int64
from ember.errors import check
from ember.ops.create import from_numpy
from ember.ops.pointwise import where_
from ember.source_lines import warn

_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)


@composite(export=F)
def affine_grid(theta, size, align_corners=None):
    """The places that affine maps theta (N, 2, 3) or (N, 3, 4) send the samples of an output to.

    `size` is the output's (N, C, H, W) or (N, C, D, H, W); the grid is (N, H, W, 2) or
    (N, D, H, W, 3) in coordinates from −1 to 1, x first. ValueError for shapes that do not go
    together.

    >>> import ember as torch
    >>> theta = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> torch.nn.functional.affine_grid(theta, (1, 1, 2, 2), align_corners=True).shape
    torch.Size([1, 2, 2, 2])
    """
    if align_corners is None:
        warn(_CHANGED)
        align_corners = False
    size = tuple(size)
    check(
        theta.is_floating_point(),
        ValueError,
        lambda: f"Expected theta to have floating point type, but got {theta.dtype}",
    )
    check(
        len(size) in (4, 5),
        NotImplementedError,
        "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
        f"Got size {size}.",
    )
    count = len(size) - 2
    check(
        theta.dim() == 3 and tuple(theta.shape[1:]) == (count, count + 1),
        ValueError,
        lambda: (
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for size "
            f"{size}. Got {theta.size()}."
        ),
    )
    message = f"Expected non-zero, positive output size. Got {size}"
    check(min(size) > 0, ValueError, message)
    check(
        theta.size(0) == size[0],
        RuntimeError,
        lambda: (
            f"Expected size for first dimension of theta to be {size[0]}, the batch of the output, "
            f"but got {theta.size(0)}."
        ),
    )
    if align_corners and min(size[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details."
        )
    return _places(theta, size[2:], align_corners)


def _places(theta, spatial, align_corners):
    """theta times (x, y, ..., 1) of every sample of the output."""
    axes = []
    for n in spatial:
        steps = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        axes.append(steps if align_corners else steps * (n - 1) / n)
    mesh = np.meshgrid(*axes, indexing="ij")
    base = np.stack([*reversed(mesh), np.ones_like(mesh[0])], -1).reshape(-1, len(spatial) + 1)
    base = from_numpy(base).to(theta.device, theta.dtype)
    return (base @ theta.transpose(1, 2)).view(theta.size(0), *spatial, len(spatial))


@composite(export=F)
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The input (N, C, H, W) read at the places of a grid (N, H', W', 2): (N, C, H', W').

    Also (N, C, D, H, W) with (N, D', H', W', 3). Places run from −1 to 1, x first; beyond them lies
    what `padding_mode` says: "zeros", "border" or "reflection". mode: "bilinear", "nearest" or, in
    2-d, "bicubic". ValueError for other words, RuntimeError for shapes that do not go together.

    >>> import ember as torch
    >>> x = torch.tensor([[[[1.0, 3.0]]]])
    >>> middle = torch.zeros(1, 1, 1, 2)
    >>> torch.nn.functional.grid_sample(x, middle, align_corners=False)
    tensor([[[[2.]]]])
    """
    check(
        mode in ("bilinear", "nearest", "bicubic"),
        ValueError,
        "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
        f"got: '{mode}'",
    )
    check(
        padding_mode in ("zeros", "border", "reflection"),
        ValueError,
        "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
        f"'reflection', but got: '{padding_mode}'",
    )
    if align_corners is None:
        warn(_CHANGED)
        align_corners = False
    return _sampled(input, grid, mode, padding_mode, align_corners)


@composite(export=FUNCTION)
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sample` with its words as numbers: their places in the lists of its documentation."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return _sampled(input, grid, mode, padding, align_corners)


@composite(export=FUNCTION)
def affine_grid_generator(theta, size, align_corners):
    """`affine_grid` without its checks."""
    return _places(theta, tuple(size)[2:], align_corners)


def _check_grid(input, grid, mode):
    sizes = f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    check(
        input.size(0) == grid.size(0),
        RuntimeError,
        f"grid_sampler(): expected grid and input to have same batch size, but {sizes}",
    )
    check(
        input.dim() in (4, 5) and grid.dim() == input.dim(),
        RuntimeError,
        f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
        f"{sizes}",
    )
    count = input.dim() - 2
    check(
        grid.size(-1) == count,
        RuntimeError,
        f"grid_sampler(): expected grid to have size {count} in last dimension, but got grid with "
        f"sizes {list(grid.shape)}",
    )
    for dim, n in enumerate(input.shape[2:], 2):
        check(
            n > 0,
            RuntimeError,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)} with dimension {dim} being empty",
        )
    check(
        mode != "bicubic" or count == 2,
        RuntimeError,
        "grid_sampler(): bicubic interpolation only supports 4D input",
    )
    check(
        input.dtype is grid.dtype,
        RuntimeError,
        lambda: f"expected scalar type {input.dtype.title} but found {grid.dtype.title}",
    )


def _sampled(input, grid, mode, padding_mode, align_corners):
    _check_grid(input, grid, mode)
    # The last dim of the input comes first in the grid.
    sizes = tuple(input.shape[2:])
    places = [
        _unnormalized(place, n, align_corners)
        for place, n in zip(reversed(grid.unbind(-1)), sizes, strict=True)
    ]
    read = _Reader(input, sizes, padding_mode, align_corners)
    if mode == "bicubic":
        return read.cubic(places)
    places = [read.inside(place, n) for place, n in zip(places, sizes)]
    if mode == "nearest":
        places = [flat_beyond(place) for place in places]
        found = read.at([place.round() for place in places])
        return found + _no_slope(places).unsqueeze(1) if grid.requires_grad else found
    return read.linear(places)


def _unnormalized(place, size, align_corners):
    """−1 to 1 as a place among the samples."""
    if align_corners:
        return (place + 1) * ((size - 1) / 2)
    return ((place + 1) * size - 1) / 2


def _no_slope(places):
    """Zeros that depend on the places: a gradient of zero is still a gradient."""
    return sum(where_(place.abs() < math.inf, place, 0) * 0 for place in places)


def _clipped(place, size):
    """Within 0 and size − 1, without gradient at or beyond them; NaN goes to 0."""
    last = size - 1
    place = where_(place > 0, place, 0)
    return where_(place < last, place, last)


class _Reader:
    """Reads one input at places given for each dim as float tensors (N, *output)."""

    def __init__(self, input, sizes, padding_mode, align_corners):
        self.flat, self.sizes = input.flatten(2), sizes
        self.padding_mode, self.align_corners = padding_mode, align_corners

    def inside(self, place, size):
        """A place as the padding mode moves it."""
        if self.padding_mode == "zeros":
            return place
        if self.padding_mode == "reflection":
            place = self._reflected(place, size)
        return _clipped(place, size)

    def _reflected(self, place, size):
        """Mirrored at the corner samples, or at the borders half a sample beyond them."""
        low = 0.0 if self.align_corners else -0.5
        span = size - 1 if self.align_corners else size
        if span == 0:
            return place * 0
        away = (place - low).abs()
        flips = (away.detach() / span).floor()
        extra = away - flips * span
        odd = flips.remainder(2) == 1
        return where_(odd, span - extra, extra) + low

    def at(self, places):
        """The samples at whole places (N, *output): (N, C, *output), 0 outside."""
        index = valid = None
        for place, n in zip(places, self.sizes):
            place = place.detach()
            within = (place >= 0) & (place <= n - 1)
            step = where_(within, place, 0).to(int64)
            index = step if index is None else index * n + step
            valid = within if valid is None else valid & within
        count, channels = self.flat.shape[:2]
        flat_index = index.reshape(count, 1, -1).expand(count, channels, -1)
        found = self.flat.gather(2, flat_index).view(count, channels, *index.shape[1:])
        return found.masked_fill(~valid.unsqueeze(1), 0)

    def linear(self, places):
        """The mean of the 2^dims samples around, weighted by nearness."""
        floors = [place.detach().floor() for place in places]
        after = [place - floor for place, floor in zip(places, floors)]
        total = None
        for corner in itertools.product((0, 1), repeat=len(places)):
            weight = None
            for side, share in zip(corner, after):
                own = share if side else 1 - share
                weight = own if weight is None else weight * own
            part = self.at([floor + side for floor, side in zip(floors, corner)])
            part = part * weight.unsqueeze(1)
            total = part if total is None else total + part
        return total

    def cubic(self, places):
        """Keys' cubic convolution over 4 x 4 samples, each moved inside on its own."""
        floors = [place.detach().floor() for place in places]
        weights = [_cubic_weights(place - floor) for place, floor in zip(places, floors)]
        total = None
        for taps in itertools.product(range(4), repeat=2):
            spots = [
                self.inside(floor + (tap - 1), n) for floor, tap, n in zip(floors, taps, self.sizes)
            ]
            spots = [spot.floor() if self.padding_mode != "zeros" else spot for spot in spots]
            weight = weights[0][taps[0]] * weights[1][taps[1]]
            part = self.at(spots) * weight.unsqueeze(1)
            total = part if total is None else total + part
        return total


def _cubic_weights(t):
    """The weights of the samples at −1, 0, 1 and 2 for a place t in [0, 1), with a = −3/4."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)
