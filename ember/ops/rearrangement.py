"""Elements moved between channels and places: pixel and channel shuffles, sliding blocks."""

import numpy as np

from ember.core.registry import FUNCTION, F, composite
from ember.errors import check
from ember.ops.create import from_numpy
from ember.ops.formats import in_order_of
from ember.ops.padding import pad


def _check_pixels(name, input, factor_name, factor):
    check(
        input.dim() >= 3,
        RuntimeError,
        lambda: (
            f"{name} expects input to have at least 3 dimensions, "
            f"but got input with {input.dim()} dimension(s)"
        ),
    )
    check(factor > 0, RuntimeError, f"{name} expects a positive {factor_name}, but got {factor}")


@composite(export=FUNCTION | F)
def pixel_shuffle(input, upscale_factor):
    """(*, C·r², H, W) to (*, C, H·r, W·r): channels become pixels (Shi et al., arXiv:1609.05158).

    >>> import ember as torch
    >>> torch.pixel_shuffle(torch.tensor([[[1]], [[2]], [[3]], [[4]]]), 2)
    tensor([[[1, 2],
             [3, 4]]])
    """
    r = upscale_factor
    _check_pixels("pixel_shuffle", input, "upscale_factor", r)
    *batch, channels, height, width = input.shape
    check(
        channels % (r * r) == 0,
        RuntimeError,
        lambda: (
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of"
            f" upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        ),
    )
    kept, n = channels // (r * r), len(batch)
    if r == 1:
        return input.clone()
    parts = input.reshape(*batch, kept, r, r, height, width)
    parts = parts.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return in_order_of(input, parts.reshape(*batch, kept, height * r, width * r))


@composite(export=FUNCTION | F)
def pixel_unshuffle(input, downscale_factor):
    """(*, C, H·r, W·r) to (*, C·r², H, W): the inverse of `pixel_shuffle`.

    >>> import ember as torch
    >>> torch.pixel_unshuffle(torch.tensor([[[1, 2], [3, 4]]]), 2).shape
    torch.Size([4, 1, 1])
    """
    r = downscale_factor
    _check_pixels("pixel_unshuffle", input, "downscale_factor", r)
    *batch, channels, height, width = input.shape
    for side, size, dim in (("height", height, -2), ("width", width, -1)):
        check(
            size % r == 0,
            RuntimeError,
            f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
            f"input.size({dim})={size} is not divisible by {r}",
        )
    if r == 1:
        return input.clone()
    n = len(batch)
    parts = input.reshape(*batch, channels, height // r, r, width // r, r)
    parts = parts.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return in_order_of(input, parts.reshape(*batch, channels * r * r, height // r, width // r))


@composite(export=FUNCTION | F, names=("native_channel_shuffle",))
def channel_shuffle(input, groups):
    """(N, g·k, ...) with its channels dealt out: c = i·k + j goes to j·g + i.

    >>> import ember as torch
    >>> torch.channel_shuffle(torch.tensor([[[1], [2], [3], [4]]]), 2).flatten()
    tensor([1, 3, 2, 4])
    """
    check(
        input.dim() > 2,
        RuntimeError,
        lambda: (
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        ),
    )
    check(
        groups > 0,
        RuntimeError,
        f"Number of groups to divide channels in must be positive. Value of groups:{groups}",
    )
    channels = input.size(1)
    check(
        channels % groups == 0,
        RuntimeError,
        lambda: (
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        ),
    )
    dealt = input.unflatten(1, (groups, channels // groups)).transpose(1, 2).flatten(1, 2)
    return in_order_of(input, dealt)


def _pair(name, value):
    """A number for both spatial dims, or one each."""
    if not hasattr(value, "__iter__"):
        return (value, value)
    value = tuple(value)
    check(
        len(value) in (1, 2),
        RuntimeError,
        lambda: f"It is expected {name} equals to 2, but got size {len(value)}",
    )
    return value * 2 if len(value) == 1 else value


def _block_geometry(kernel_size, dilation, padding, stride):
    kernel, dilation = _pair("kernel_size", kernel_size), _pair("dilation", dilation)
    padding, stride = _pair("padding", padding), _pair("stride", stride)
    for name, word, (height, width), least in (
        ("kernel size", "kernel", kernel, 1),
        ("stride", "stride", stride, 1),
        ("dilation", "dilation", dilation, 1),
        ("padding", "pad", padding, 0),
    ):
        wanted = "greater than zero" if least else "non-negative"
        check(
            height >= least and width >= least,
            RuntimeError,
            f"{name} should be {wanted}, but got {word}_height: {height} {word}_width: {width}",
        )
    return kernel, dilation, padding, stride


def _blocks(size, kernel, dilation, padding, stride):
    """How many blocks fit along each spatial dim."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)
    )


def _places(input, blocks, size, kernel, dilation, stride):
    """Where in a plane, laid out flat, each element of each block is: kernel taps, then blocks."""
    rows, columns = (
        np.arange(k)[:, None] * d + np.arange(n) * s
        for n, k, d, s in zip(blocks, kernel, dilation, stride)
    )
    places = rows[:, None, :, None] * size[1] + columns[None, :, None, :]
    return from_numpy(places.reshape(-1)).to(input.device)


def _check_batch(input, rank):
    """RuntimeError unless input has `rank` dims, or one more for the batch, and is not empty."""
    sizes = input.shape[1:] if input.dim() == rank + 1 else input.shape
    check(
        input.dim() in (rank, rank + 1) and all(sizes),
        RuntimeError,
        lambda: (
            f"Expected {rank}D or {rank + 1}D (batch mode) tensor with possibly 0 batch size and "
            f"other non-zero dimensions for input, but got: {list(input.shape)}"
        ),
    )


@composite(export=F)
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The sliding blocks of (N, C, H, W) as columns: (N, C·h·w, number of blocks).

    RuntimeError where no block fits or a number is not positive.

    >>> import ember as torch
    >>> torch.nn.functional.unfold(torch.arange(6.0).view(1, 1, 2, 3), 2)
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    kernel, dilation, border, stride = _block_geometry(kernel_size, dilation, padding, stride)
    _check_batch(input, 3)
    batched = input.dim() == 4
    input = input if batched else input.unsqueeze(0)
    size = tuple(input.shape[2:])
    blocks = _blocks(size, kernel, dilation, border, stride)
    check(
        min(blocks) >= 1,
        RuntimeError,
        lambda: (
            f"Given input with spatial size {size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={border}, calculated shape of the array of sliding blocks as {blocks}, but "
            "its components must be at least one."
        ),
    )
    padded = pad(input, (border[1], border[1], border[0], border[0])) if any(border) else input
    places = _places(input, blocks, padded.shape[2:], kernel, dilation, stride)
    columns = padded.flatten(2).index_select(2, places)
    count, channels = input.shape[:2]
    taps = kernel[0] * kernel[1]
    columns = columns.reshape(count, channels * taps, blocks[0] * blocks[1])
    return columns if batched else columns.squeeze(0)


@composite(export=F)
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns (N, C·h·w, blocks) added up where their blocks lie, in (N, C, H, W).

    The adjoint of `unfold`. RuntimeError where the columns do not come from `output_size`.

    >>> import ember as torch
    >>> torch.nn.functional.fold(torch.ones(1, 4, 2), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    size = _pair("output_size", output_size)
    kernel, dilation, border, stride = _block_geometry(kernel_size, dilation, padding, stride)
    _check_batch(input, 2)
    batched = input.dim() == 3
    input = input if batched else input.unsqueeze(0)
    taps = kernel[0] * kernel[1]
    check(
        input.size(1) % taps == 0,
        RuntimeError,
        lambda: (
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={input.size(1)} and kernel_size={kernel}."
        ),
    )
    blocks = _blocks(size, kernel, dilation, border, stride)
    check(
        min(blocks) >= 1 and blocks[0] * blocks[1] == input.size(2),
        RuntimeError,
        lambda: (
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={border}"
            f", stride={stride}, expected size of input's dimension 2 to match the calculated "
            f"number of sliding blocks {blocks[0]} * {blocks[1]} = {blocks[0] * blocks[1]}, but "
            f"got input.size(2)={input.size(2)}."
        ),
    )
    height, width = size[0] + 2 * border[0], size[1] + 2 * border[1]
    places = _places(input, blocks, (height, width), kernel, dilation, stride)
    count, channels = input.size(0), input.size(1) // taps
    plane = input.new_zeros((count, channels, height * width))
    plane = plane.index_add(2, places, input.reshape(count, channels, -1))
    plane = plane.unflatten(2, (height, width))
    if any(border):
        plane = plane[:, :, border[0] : height - border[0], border[1] : width - border[1]]
        plane = plane.contiguous()
    return plane if batched else plane.squeeze(0)
