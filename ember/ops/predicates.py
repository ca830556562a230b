"""Questions about tensors as functions: dtype kinds, sizes, single truths."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.argument_types import check_tensor


def _asked(name: str) -> None:
    def call(input: Tensor) -> Any:
        check_tensor(name, "input", 1, input)
        return getattr(input, name)()

    call.__name__, call.__doc__ = name, f"`Tensor.{name}` as a function."
    composite(FUNCTION, name=name)(call)


for _name in (
    "is_complex",
    "is_floating_point",
    "is_signed",
    "is_inference",
    "numel",
    "get_device",
):
    _asked(_name)


@composite(FUNCTION | METHOD)
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is nonzero. RuntimeError for more or fewer elements."""
    count = input.numel()
    check(
        count == 1,
        RuntimeError,
        "Boolean value of Tensor with no values is ambiguous"
        if count == 0
        else "Boolean value of Tensor with more than one value is ambiguous",
    )
    return bool(input.item())


@composite(FUNCTION | METHOD)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    return input.shape == other.shape


@composite(METHOD)
def is_distributed(self: Tensor) -> bool:
    """Whether the tensor is spread over processes: never."""
    return False
