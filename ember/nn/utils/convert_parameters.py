"""Parameters as one vector, and back."""

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_one_device(devices):
    distinct = {str(device) for device in devices}
    check(
        len(distinct) <= 1,
        TypeError,
        f"Found two parameters on different devices ({', '.join(sorted(distinct))}), this is "
        "currently not supported.",
    )


def parameters_to_vector(parameters):
    """All elements of the parameters in one 1-d tensor; gradients flow back through it.

    TypeError for parameters on several devices, ValueError for none.

    >>> import ember as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(1, 2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    parameters = list(parameters)
    check(parameters, ValueError, "torch.cat(): expected a non-empty list of Tensors")
    _check_one_device(p.device for p in parameters)
    return ops.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Make each parameter the next piece of `vec`, whose memory it then shares.

    TypeError for what is no tensor, or several devices; RuntimeError for a vector too short.

    >>> import ember as torch
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0]), [w])
    >>> w.data
    tensor([1., 2.])
    """
    check(
        isinstance(vec, Tensor),
        TypeError,
        f"expected torch.Tensor, but got: {type(vec).__name__}",
    )
    parameters = list(parameters)
    _check_one_device(p.device for p in parameters)
    pieces, start = [], 0
    for parameter in parameters:
        pieces.append(vec[start : start + parameter.numel()].view_as(parameter))
        start += parameter.numel()
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.data = piece.data
