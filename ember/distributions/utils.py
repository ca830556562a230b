"""`torch.distributions.utils`: arguments broadcast, probabilities and logits, lazy properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any

from ember import ops
from ember.core.modes import enable_grad, get_default_dtype
from ember.core.tensor import Tensor
from ember.dtypes import finfo
from ember.errors import check
from ember.layout import Size

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _like_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape; numbers get the dtype and device of the first tensor.

    ValueError for what is neither a number nor a tensor.

    >>> import ember as torch
    >>> from ember.distributions.utils import broadcast_all
    >>> broadcast_all(torch.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    check(
        all(isinstance(value, Number) or _like_tensor(value) for value in values),
        ValueError,
        "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
        "__torch_function__.",
    )
    first = next((value for value in values if isinstance(value, Tensor)), None)
    options = {"dtype": get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [v if _like_tensor(v) else ops.tensor(v, **options) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def is_number(*values: Any) -> bool:
    """Whether all the values are plain numbers: then the batch has no dims."""
    return all(isinstance(value, Number) for value in values)


def batch_of(like: Tensor, *values: Any) -> Size:
    """The batch shape of broadcast parameters: none where all were plain numbers."""
    return Size() if is_number(*values) else like.size()


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draws of the standard normal distribution."""
    return ops.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dims."""
    if dim == 0 or not isinstance(value, Tensor):
        return value
    return value.reshape(*value.shape[:-dim], -1).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """The probabilities kept from 0 and 1 by the dtype's eps, for their logarithms to be finite.

    >>> import ember as torch
    >>> from ember.distributions.utils import clamp_probs
    >>> clamp_probs(torch.tensor([0.0, 0.5])).log().isfinite()
    tensor([True, True])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Sigmoid (binary) or softmax of the logits.

    >>> import ember as torch
    >>> from ember.distributions.utils import logits_to_probs
    >>> logits_to_probs(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p / (1 - p)) (binary) or log(p), of probabilities kept from 0 and 1.

    >>> import ember as torch
    >>> from ember.distributions.utils import probs_to_logits
    >>> probs_to_logits(torch.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property:
    """A property computed at its first use and kept; gradients pass through it.

    >>> from ember.distributions.utils import lazy_property
    >>> class Square:
    ...     side = 3
    ...     @lazy_property
    ...     def area(self):
    ...         return self.side**2
    >>> Square().area
    9
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


def _side(length: int, diag: int) -> int:
    """n of the n x n matrix whose part up to a diagonal has `length` numbers."""
    linear = 1 + 2 * diag
    return (math.isqrt(linear**2 + 8 * length + 4 * abs(diag) * (diag + 1)) - linear) // 2


def _places(side: int, diag: int, device: Any) -> Tensor:
    rows, columns = ops.tril_indices(side, side, offset=diag, device=device)
    return rows * side + columns


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The lower triangular matrix whose rows, up to diagonal `diag`, hold the vector's numbers.

    ValueError for a length that no square matrix has.

    >>> import ember as torch
    >>> from ember.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    length = vec.shape[-1]
    side = _side(length, diag)
    places = _places(side, diag, vec.device)
    check(
        len(places) == length,
        ValueError,
        f"The size of last dimension is {length} which cannot be expressed as the lower "
        "triangular part of a square D x D matrix.",
    )
    flat = vec.new_zeros(Size([*vec.shape[:-1], side * side]))
    return flat.scatter(-1, places.expand(vec.shape), vec).reshape(*vec.shape[:-1], side, side)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The numbers of the lower triangle up to diagonal `diag`, row by row.

    ValueError for a diagonal that the matrix does not have.

    >>> import ember as torch
    >>> from ember.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    side = mat.shape[-1]
    check(
        -side <= diag < side,
        ValueError,
        f"diag ({diag}) provided is outside [{-side}, {side - 1}].",
    )
    return mat.flatten(-2).index_select(-1, _places(side, diag, mat.device))
