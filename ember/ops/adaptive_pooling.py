"""Pooling to a chosen size, over windows that share the input out."""

from ember.backends.library import Library
from ember.core.registry import FUNCTION, F, composite, library_op
from ember.dtypes import int64
from ember.errors import check
from ember.ops.pooling import max_pool_backward


@library_op(Library.adaptive_average_pool, follows=(0,), ranks=(4,))
def adaptive_average_pool(input, output_size):
    """The mean of windows i·n/m to ceil((i + 1)·n/m) of (N, C, *spatial)."""
    return input.spec.with_shape((*input.shape[:2], *output_size))


@library_op(Library.adaptive_average_pool_backward, follows=(0,), ranks=(4,))
def adaptive_average_pool_backward(grad, input_shape):
    """`grad` shared out over the windows that it comes from."""
    return grad.spec.with_shape(tuple(input_shape))


adaptive_average_pool.grad = lambda g, input_spec: adaptive_average_pool_backward(
    g, input_spec.shape
)
adaptive_average_pool_backward.grad = lambda g, grad_spec: adaptive_average_pool(
    g, grad_spec.shape[2:]
)


@library_op(Library.adaptive_max_pool, follows=(0,), ranks=(4,))
def adaptive_max_pool(input, output_size):
    """The greatest of each of those windows, and its index in the plane laid out flat."""
    spec = input.spec.with_shape((*input.shape[:2], *output_size))
    return spec, spec.with_dtype(int64)


adaptive_average_pool.flat = adaptive_max_pool.flat = True
adaptive_max_pool.grad = lambda g, input_spec, result: max_pool_backward(
    g[0], result[1], input_spec.shape, input_spec.ndim - 2
)


def _output_size(name, input, output_size, count):
    """The sizes asked for, with the input's own where they are None."""
    if count == 1:
        check(
            output_size is not None,
            TypeError,
            f"{name}(): argument 'output_size' (position 2) must be tuple of ints, not NoneType",
        )
    sizes = (
        tuple(output_size) if hasattr(output_size, "__iter__") else (output_size,) * count
    )  # fmt: skip
    check(
        len(sizes) == count,
        RuntimeError,
        f"{name}() argument 'output_size' should contain {count} int(s) (got {len(sizes)}): "
        f"{name}: output_size must be {count}",
    )
    check(
        count == 1 or input.dim() > count,
        ValueError,
        lambda: f"Input dimension should be at least {count + 1}, got {input.dim()}",
    )
    check(
        input.dim() in (count + 1, count + 2),
        RuntimeError,
        lambda: (
            f"{name}(): Expected {count + 1}D or {count + 2}D tensor, but got {list(input.shape)}"
        ),
    )
    sizes = tuple(n if s is None else int(s) for s, n in zip(sizes, input.shape[-count:]))
    check(
        all(s >= 0 for s in sizes),
        RuntimeError,
        f"{name}: elements of output_size must be greater than or equal to 0 but received {sizes}",
    )
    return sizes


def _adaptive_average(name, count, input, output_size):
    sizes = _output_size(name, input, output_size, count)
    if all(s == 1 for s in sizes):
        return input.mean(tuple(range(-count, 0)), keepdim=True)
    batched = input.dim() == count + 2
    out = adaptive_average_pool(input if batched else input.unsqueeze(0), sizes)
    return out if batched else out.squeeze(0)


def _adaptive_max(name, count, input, output_size, return_indices):
    sizes = _output_size(name, input, output_size, count)
    for dim in range(input.dim() - count - 1, input.dim()):
        check(
            input.size(dim) > 0,
            RuntimeError,
            lambda: (
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(input.shape)} with dimension {dim} being empty"  # noqa: B023
            ),
        )
    batched = input.dim() == count + 2
    values, indices = adaptive_max_pool(input if batched else input.unsqueeze(0), sizes)
    if not batched:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


@composite(export=FUNCTION | F)
def adaptive_avg_pool1d(input, output_size):
    """The mean of each of `output_size` windows that share (N, C, L) or (C, L) out evenly.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_avg_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return _adaptive_average("adaptive_avg_pool1d", 1, input, output_size)


@composite(export=F)
def adaptive_avg_pool2d(input, output_size):
    """The mean of each window of (N, C, H, W); None in `output_size` keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 2, 5, 7), (2, None)).shape
    torch.Size([1, 2, 2, 7])
    """
    return _adaptive_average("adaptive_avg_pool2d", 2, input, output_size)


@composite(export=F)
def adaptive_avg_pool3d(input, output_size):
    """The mean of each window of (N, C, D, H, W); None in `output_size` keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.ones(1, 2, 5, 7, 6), 2).shape
    torch.Size([1, 2, 2, 2, 2])
    """
    return _adaptive_average("adaptive_avg_pool3d", 3, input, output_size)


@composite(export=F)
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The greatest of each of `output_size` windows that share (N, C, L) or (C, L) out evenly.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


@composite(export=F)
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The greatest of each window of (N, C, H, W); None in `output_size` keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.ones(1, 2, 5, 7), (2, None)).shape
    torch.Size([1, 2, 2, 7])
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


@composite(export=F)
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The greatest of each window of (N, C, D, H, W); None keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.functional.adaptive_max_pool3d(torch.ones(1, 2, 5, 7, 6), 2).shape
    torch.Size([1, 2, 2, 2, 2])
    """
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


@composite(export=F)
def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """`adaptive_max_pool1d` with `return_indices=True`."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, True)


@composite(export=F)
def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """`adaptive_max_pool2d` with `return_indices=True`."""
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, True)


@composite(export=F)
def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """`adaptive_max_pool3d` with `return_indices=True`."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, True)
