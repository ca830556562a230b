"""Max pools undone, and max pools over windows of pseudo-random places."""

from ember.core.registry import F, composite
from ember.core.second_order import flat_beyond
from ember.dtypes import int64
from ember.errors import check
from ember.ops.formats import in_order_of
from ember.ops.joining import cat
from ember.ops.random import rand


def _numbers(value, count):
    return tuple(value) if hasattr(value, "__iter__") else (value,) * count


def _unpooled_size(input, kernel, stride, padding, output_size, count):
    """The size that the pool's input had: the one given, or the least that fits."""
    least = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(input.shape[-count:], kernel, stride, padding)
    ]
    if output_size is None:
        return tuple(least)
    given = tuple(output_size)
    if len(given) == count + 2:
        given = given[2:]
    check(
        len(given) == count,
        ValueError,
        f"output_size should be a sequence containing {count} or {count + 2} elements, but it has "
        f"a length of '{len(given)}'",
    )
    for dim, (size, base, s) in enumerate(zip(given, least, stride)):
        check(
            base - s < size < base + s,
            ValueError,
            f'invalid output_size "{given}" (dim {dim} must be between {base - s} and {base + s})',
        )
    return given


def _unpool(count, input, indices, kernel_size, stride, padding, output_size):
    name = f"max_unpooling{count}d"
    kernel = _numbers(kernel_size, count)
    stride = kernel if stride is None else _numbers(stride, count)
    size = _unpooled_size(input, kernel, stride, _numbers(padding, count), output_size, count)
    message = f"strides should be greater than zero, but got stride: {list(stride)}"
    check(count < 3 or all(s > 0 for s in stride), RuntimeError, message)
    check(
        indices.dtype is int64,
        RuntimeError,
        lambda: f"elements in indices should be type int64 but got: {indices.dtype.title}",
    )
    check(
        input.dim() in (count + 1, count + 2),
        RuntimeError,
        lambda: (
            f"Input to {name} should be a {count + 1}d or {count + 2}d Tensor, but got a tensor "
            f"with {input.dim()} dimensions."
        ),
    )
    check(
        input.shape == indices.shape,
        RuntimeError,
        lambda: (
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        ),
    )
    check(
        all(input.shape[1:]),
        RuntimeError,
        lambda: (
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        ),
    )
    dim = input.dim() - count
    total = 1
    for n in size:
        total *= n
    plane = input.new_zeros((*input.shape[:dim], total))
    flat = indices.flatten(dim)
    try:
        plane = plane.scatter(dim, flat, input.flatten(dim))
    except (IndexError, RuntimeError) as error:
        outside = flat[(flat < 0) | (flat >= total)]
        if outside.numel() == 0:
            raise
        raise RuntimeError(
            f"Found an invalid max index: {int(outside[0])} (output volumes are of size "
            f"{'x'.join(map(str, size))})"
        ) from error
    return in_order_of(input, plane.unflatten(dim, size))


@composite(export=F)
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The partial inverse of `max_pool1d`: zeros but for the values at `indices`.

    `output_size` picks among the sizes that fit, else ValueError.

    >>> import ember as torch
    >>> F = torch.nn.functional
    >>> F.max_unpool1d(torch.tensor([[3.0, 2.0]]), torch.tensor([[1, 2]]), 2)
    tensor([[0., 3., 2., 0.]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@composite(export=F)
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The partial inverse of `max_pool2d`: zeros but for the values at `indices`.

    >>> import ember as torch
    >>> F = torch.nn.functional
    >>> F.max_unpool2d(torch.tensor([[[5.0]]]), torch.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 5.]]])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@composite(export=F)
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The partial inverse of `max_pool3d`: zeros but for the values at `indices`.

    >>> import ember as torch
    >>> F = torch.nn.functional
    >>> F.max_unpool3d(torch.ones(1, 1, 1, 1), torch.tensor([[[[3]]]]), 2).sum()
    tensor(1.)
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _starts(samples, size, pool, count):
    """Where windows begin: floor((i + u)·α) − floor(u·α), and the last one at the end."""
    last = samples.new_full((*samples.shape, 1), size - pool)
    if count == 1:
        return last.to(int64)
    alpha = (size - pool) / (count - 1)
    steps = samples.new_tensor(list(range(count - 1)))
    starts = ((steps + samples.unsqueeze(-1)) * alpha).trunc()
    starts = starts - (samples * alpha).trunc().unsqueeze(-1)
    return cat([starts, last], -1).to(int64)


def _fractional(
    count, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
):
    name = f"fractional_max_pool{count}d"
    kernel = _numbers(kernel_size, count)
    message = f"{name}: kernel_size must either be a single Int or tuple of Ints"
    check(len(kernel) == count, RuntimeError, message)
    check(
        output_size is not None or output_ratio is not None,
        ValueError,
        f"{name} requires specifying either an output_size or an output_ratio",
    )
    if output_size is None:
        ratios = _numbers(output_ratio, count)
        output_size = [int(n * r) for n, r in zip(input.shape[-count:], ratios)]
    size = _numbers(output_size, count)
    batched = input.dim() == count + 2
    check(
        batched or input.dim() == count + 1,
        RuntimeError,
        lambda: f"{name}: expected a {count + 1}D or {count + 2}D input, got {input.dim()}D",
    )
    input = input if batched else input.unsqueeze(0)
    for n, k, out in zip(input.shape[2:], kernel, size):
        check(
            out + k - 1 <= n,
            RuntimeError,
            f"{name}(): pool size {k} too large relative to input size {n} for {out} windows",
        )
    lead = tuple(input.shape[:2])
    samples = _random_samples
    if samples is None:
        samples = rand((*lead, count), dtype=input.dtype, device=input.device)
    fits = samples.dim() == 3 and samples.size(0) >= lead[0]
    check(
        fits and tuple(samples.shape[1:]) == (lead[1], count),
        RuntimeError,
        lambda: (
            f"{name}: _random_samples must be {[*lead, count]}: Expect _random_samples.size(2) "
            f"equals to {count}; got {list(samples.shape)}."
        ),
    )
    samples = samples[: lead[0]]
    values, indices = _windows_max(flat_beyond(input), kernel, size, samples)
    if not batched:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def _windows_max(input, kernel, size, samples):
    """The greatest of each window and its index in the plane laid out flat."""
    count = len(kernel)
    places = None
    for dim, (n, k, out) in enumerate(zip(input.shape[2:], kernel, size)):
        # In 2-d the last dim takes the first sample, in 3-d the first does, as PyTorch has it.
        starts = _starts(samples[..., 1 - dim if count == 2 else dim], n, k, out)
        taps = starts.new_tensor(list(range(k)))
        own = starts.unsqueeze(-1) + taps
        shape = [*own.shape[:2], *(1,) * (2 * count)]
        shape[2 + dim], shape[2 + count + dim] = out, k
        own = own.view(shape)
        places = own if places is None else places * n + own
    flat = places.flatten(2 + count)
    windows = input.flatten(2).gather(2, flat.flatten(2)).view(flat.shape)
    values, taps = windows.max(-1)
    return values, flat.gather(-1, taps.unsqueeze(-1)).squeeze(-1)


@composite(export=F)
def fractional_max_pool2d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """The greatest of windows of (N, C, H, W) at pseudo-random places (Graham, arXiv:1412.6071).

    Give one of `output_size` and `output_ratio`, else ValueError.

    >>> import ember as torch
    >>> torch.nn.functional.fractional_max_pool2d(torch.ones(1, 2, 5, 5), 2, 3).shape
    torch.Size([1, 2, 3, 3])
    """
    how = (kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional(2, input, *how)


@composite(export=F)
def fractional_max_pool3d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """The greatest of windows of (N, C, D, H, W) at pseudo-random places.

    >>> import ember as torch
    >>> torch.nn.functional.fractional_max_pool3d(torch.ones(1, 2, 6, 6, 6), 2, 3).shape
    torch.Size([1, 2, 3, 3, 3])
    """
    how = (kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional(3, input, *how)


@composite(export=F)
def fractional_max_pool2d_with_indices(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """`fractional_max_pool2d` with `return_indices=True`."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


@composite(export=F)
def fractional_max_pool3d_with_indices(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """`fractional_max_pool3d` with `return_indices=True`."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)
