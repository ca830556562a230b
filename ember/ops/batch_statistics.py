"""Batch normalization in training as one op, where a device has it."""

from ember.backends.base import has_cpu_kernels, kernels_of
from ember.backends.library import Library
from ember.core import modes
from ember.core.registry import elementwise, library_op
from ember.core.slot import executor_slot
from ember.dtypes import HALF, float32
from ember.kernel.array import spec_of
from ember.layout import channels_last_strides, channels_lie_last

LEAST_GIVEN = 1 << 12  # elements from which compiling pays


def is_one_op(input, weight, bias):
    """Whether batch normalization of this runs as one op, outside of transforms: in single
    precision with the CPU's kernels; on real GPUs with channels last, in half precision too."""
    spec = input._array.spec
    plain = (
        not modes.state.levels
        and spec.numel > 0
        and (weight is None or weight.dtype is float32)
        and (bias is None or bias.dtype is float32)
    )
    if not plain or has_cpu_kernels(spec.device):
        return plain and spec.dtype is float32
    return (
        (spec.dtype is float32 or spec.dtype in HALF)
        and channels_lie_last(spec.shape, spec.strides)
        and kernels_of(spec.device).has_class_losses
    )


def is_one_op_given(input, *vectors):
    """Whether batch normalization by given statistics runs as one op: where nothing is recorded
    that could be joined with it, on the CPU, in single precision."""
    spec = input._array.spec
    return (
        not modes.state.grad
        and not modes.state.levels
        and executor_slot[0] is None
        and spec.numel >= LEAST_GIVEN
        and has_cpu_kernels(spec.device)
        and all(t is None or t.dtype is float32 for t in (input, *vectors))
    )


@elementwise(writes=("mean", "var"))
def move_statistics_(mean, var, now, spread, *, momentum, unbiased):
    """Both moved towards what a batch has; its variance is multiplied by `unbiased` first."""
    return mean + momentum * (now - mean), var + momentum * (spread * unbiased - var)


def _in_order(spec):
    """The result's spec: dense, with channels last where they are."""
    if not channels_lie_last(spec.shape, spec.strides):
        return spec.with_shape(spec.shape)
    return spec_of(spec.shape, channels_last_strides(spec.shape), spec.dtype, spec.device)


@library_op(Library.batch_norm)
def batch_normalized(input, weight, bias, eps):
    """(x − mean) / √(var + eps) · weight + bias, and the mean and variance of each channel."""
    vector = input.spec.with_shape((input.size(1),)).with_dtype(float32)
    return _in_order(input.spec), vector, vector


@library_op(Library.batch_norm_given)
def batch_normalized_by(input, weight, bias, mean, var, eps):
    """(x − mean) / √(var + eps) · weight + bias for a mean and a variance of each channel."""
    return _in_order(input.spec)


@library_op(Library.batch_norm_backward)
def batch_normalized_backward(g, input, weight, mean, var, eps):
    """The gradient by the input, and two sums for each channel."""
    vector = input.spec.with_shape((input.size(1),)).with_dtype(float32)
    return _in_order(input.spec), vector, vector


def _gradient(g, input, weight, bias, eps, result):
    mean, var = result
    g = g[0]
    if modes.state.grad or modes.state.levels:
        by_input, by_weight, by_bias = _composed(g, input, weight, eps)
    else:
        by_input, by_bias, along = batch_normalized_backward(g, input, weight, mean, var, eps)
        by_weight = along * (var + eps).rsqrt()
    vectors = ((weight, by_weight), (bias, by_bias))
    return (by_input, *(grad for vector, grad in vectors if vector is not None))


def _composed(g, input, weight, eps):
    """The gradients as ops that can be derived again."""
    dims, shape = (0, *range(2, input.dim())), (1, -1, *(1,) * (input.dim() - 2))
    count = input.numel() // input.size(1)
    x, slope = input.to(float32), g.to(float32)
    centered = x - x.mean(dims, keepdim=True)
    root = (centered.pow(2).mean(dims, keepdim=True) + eps).rsqrt()
    normal = centered * root
    scaled = slope if weight is None else slope * weight.view(shape)
    means = scaled.sum(dims, keepdim=True) / count
    along = (scaled * normal).sum(dims, keepdim=True) / count
    by_input = (root * (scaled - means - normal * along)).to(input.dtype)
    return by_input, (slope * normal).sum(dims), slope.sum(dims)


batch_normalized.grad = _gradient
batch_normalized.saved_results = slice(1, None)
