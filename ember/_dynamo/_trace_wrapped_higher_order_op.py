"""The mode that libraries index under when a function of positions is mapped over positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """A mode under which `x[i]` with whole numbers in tensors is gathered inside `torch.vmap`.

    Ember indexes so anyway, so this mode passes all calls on.

    >>> import ember as torch
    >>> x = torch.arange(6.0).reshape(2, 3)
    >>> with TransformGetItemToIndex():
    ...     torch.vmap(lambda i: x[i, 1])(torch.tensor([1, 0]))
    tensor([4., 1.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The call itself."""
        return func(*args, **(kwargs or {}))
