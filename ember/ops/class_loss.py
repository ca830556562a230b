"""Cross-entropy of a batch of scores against classes as one op, where a device has it."""

from ember.backends.base import has_cpu_kernels, kernels_of
from ember.backends.library import Library
from ember.core import engine, modes
from ember.core.dispatch import needs_grad
from ember.core.node import edge_of
from ember.core.registry import library_op
from ember.core.second_order import AliasBackward0
from ember.core.tensor import connected
from ember.dtypes import HALF, float32, float64
from ember.ops.negative_log_likelihood import composed_cross_entropy


def is_one_op(input, weight, smoothing):
    """Whether the loss of these scores runs as one op, outside of transforms: by the CPU's kernels
    a batch in single or double precision, with weights that no gradient is for; on real GPUs a
    matrix of single or half precision without weights."""
    if input.dim() < 2 or modes.state.levels or input.numel() == 0:
        return False
    device = input._array.spec.device
    if has_cpu_kernels(device):
        return input.dtype in (float32, float64) and (weight is None or not needs_grad(weight))
    plain = weight is None and smoothing <= 0 and input.dim() == 2
    return (
        plain
        and (input.dtype is float32 or input.dtype in HALF)
        and kernels_of(device).has_class_losses
    )


@library_op(Library.cross_entropy)
def class_loss(input, target, weight, ignore_index, smoothing, reduction):
    """The loss, and what its gradient needs: two numbers a row, and what the mean is divided by.
    All are single precision where the scores are half."""
    spec = input.spec.with_dtype(float32) if input.dtype in HALF else input.spec
    shape = tuple(target.shape) if reduction == "none" else ()
    return spec.with_shape(shape), spec.with_shape((2, target.numel())), spec.with_shape(())


@library_op(Library.cross_entropy_backward)
def class_loss_backward(g, input, target, weight, kept, total, ignore_index, smoothing, reduction):
    """The gradient by the scores."""
    return input.spec.with_shape(tuple(input.shape))


def _gradient(g, input, target, weight, ignore_index, smoothing, reduction, result):
    absent = [None] * (1 if weight is None else 2)
    if modes.state.grad or modes.state.levels:
        settings = (target, weight, ignore_index, smoothing, reduction)
        return (_composed_gradient(g[0], input, *settings), *absent)
    kept, total = result
    settings = (ignore_index, smoothing, reduction)
    return (class_loss_backward(g[0], input, target, weight, kept, total, *settings), *absent)


class_loss.grad = _gradient
class_loss.saved_results = slice(1, None)


def _composed_gradient(g, input, target, weight, ignore_index, smoothing, reduction):
    """The gradient of the composition, which can be derived again."""
    recording = modes.state.grad
    with modes.enable_grad():
        node = AliasBackward0((edge_of(input),), (input._array.spec,))
        scores = connected(input._array, node)
        wide = scores.to(float32) if input.dtype in HALF else scores
        loss = composed_cross_entropy(wide, target, weight, ignore_index, reduction, smoothing)
    (found,) = engine.run(
        [edge_of(loss)],
        [g],
        retain_graph=recording,
        create_graph=recording,
        inputs=[edge_of(scores)],
        accumulate=False,
    )
    return found
