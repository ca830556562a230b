"""Gradient clipping, by norm and by value."""

import math

import ember.ops as ops
from ember.core.modes import no_grad
from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.source_lines import warn

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _tensors(given):
    """A list of what may be one tensor or an iterable; an empty generator is worth a warning."""
    if isinstance(given, Tensor):
        return [given]
    listed = list(given)
    if not listed and not hasattr(given, "__len__"):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    return listed


def _gradients(parameters):
    return [p.grad for p in parameters if p.grad is not None]


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of the tensors together: the norm of their norms.

    Tensors may be of several dtypes and on several devices; the result is on the first one's.
    `foreach` changes nothing. RuntimeError if the norm is not finite and error_if_nonfinite.

    >>> import ember as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = _tensors(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    vector_norm = NAMESPACES["linalg"]["vector_norm"]
    home = tensors[0].device
    norms = [vector_norm(tensor, norm_type).to(home) for tensor in tensors]
    total = vector_norm(ops.stack(norms), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients in place by min(1, max_norm / (total_norm + 1e-6)).

    >>> import ember as torch
    >>> w = torch.zeros(1, requires_grad=True)
    >>> w.grad = torch.tensor([8.0])
    >>> torch.nn.utils.clip_grads_with_norm_([w], 1.0, torch.tensor(8.0))
    >>> w.grad
    tensor([1.0000])
    """
    factor = float(max_norm) / (total_norm + 1e-6)
    factor = ops.clamp(factor, max=1.0)  # always multiplied: a test of it would wait for the device
    on_device = {}
    for gradient in _gradients(_tensors(parameters)):
        if gradient.device not in on_device:
            on_device[gradient.device] = factor.to(gradient.device)
        gradient.mul_(on_device[gradient.device])


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients of the parameters in place so that their total norm is at most max_norm.

    Returns the norm before. Gradients may be on several devices; `foreach` changes nothing.
    RuntimeError if the norm is not finite and error_if_nonfinite; then nothing is scaled.

    >>> import ember as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_([w], max_norm=1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    parameters = _tensors(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clamp the gradients of the parameters to [-clip_value, clip_value] in place.

    >>> import ember as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, -4.0])
    >>> torch.nn.utils.clip_grad_value_([w], 3.5)
    >>> w.grad
    tensor([ 3.0000, -3.5000])
    """
    bound = float(clip_value)
    for gradient in _gradients(_tensors(parameters)):
        gradient.clamp_(min=-bound, max=bound)


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of `clip_grad_norm_`."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
