"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Bring the weights of the 2-d convolutions in a module into a memory format; returns the
    module, changed in place.

    >>> import ember as torch
    >>> conv = torch.nn.Conv2d(2, 2, 3)
    >>> conv = torch.nn.utils.convert_conv2d_weight_memory_format(conv, torch.channels_last)
    >>> conv.weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The same for 3-d convolutions.

    >>> import ember as torch
    >>> conv = torch.nn.Conv3d(2, 2, 3)
    >>> conv = torch.nn.utils.convert_conv3d_weight_memory_format(conv, torch.channels_last_3d)
    >>> conv.weight.is_contiguous(memory_format=torch.channels_last_3d)
    True
    """
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))


def _convert(module: Any, memory_format: Any, names: tuple[str, ...]) -> Any:
    for inner in module.modules():
        if any(kind.__name__ in names for kind in type(inner).__mro__):
            inner.weight.data = inner.weight.detach().clone(memory_format=memory_format)
    return module
