"""Lists of tensors by device and dtype, as optimizers of packages sort them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.errors import check


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The kinds of devices whose kernels take lists of tensors."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The kinds of devices that have optimizer steps in one kernel."""
    return ["cuda", "cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether ops on lists of tensors are the faster way on a device."""
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether ops on lists are the faster way for these tensors."""
    return _device_has_foreach_support(device) and all(t is not None for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """The lists divided by the device and dtype of the first list's tensors.

    Each group holds a list for each of the lists (empty for an empty one) and, with `with_indices`,
    the places of its tensors. RuntimeError for lists of different lengths.
    """
    first = tensorlistlist[0]
    check(
        all(len(other) in (0, len(first)) for other in tensorlistlist),
        RuntimeError,
        "Tensors of the same index must be on the same device and the same dtype: the lists differ "
        "in length",
    )
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for place, tensor in enumerate(first):
        key = (tensor.device, tensor.dtype)
        lists, places = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for own, other in zip(lists, tensorlistlist, strict=True):
            if other:
                own.append(other[place])
        if with_indices:
            places.append(place)
    return groups
