"""Batches cut up over devices, and results put together again; gradients flow through both."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ember import ops
from ember.core.tensor import Tensor
from ember.cuda.devices import index_of
from ember.device import device as Device


def device_of(place: Any) -> Device:
    """A GPU given as an index or a device."""
    return (
        Device("cuda", index_of(place))
        if not (isinstance(place, Device) and place.type == "cpu")
        else place
    )


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """`inputs` once for each GPU: tensors in pieces along `dim`, containers piece by piece, other
    things as they are."""
    return list(_scattered(inputs, [device_of(g) for g in target_gpus], dim))


def _scattered(value: Any, devices: Sequence[Device], dim: int) -> list[Any]:
    if isinstance(value, Tensor):
        pieces = value.chunk(len(devices), dim)
        return [piece.to(device) for piece, device in zip(pieces, devices, strict=False)]
    if isinstance(value, (tuple, list)) and value:
        columns = list(zip(*(_scattered(item, devices, dim) for item in value), strict=False))
        if hasattr(value, "_fields"):
            return [type(value)(*column) for column in columns]
        return [type(value)(column) for column in columns]
    if isinstance(value, dict) and value:
        rows = list(zip(*(_scattered(item, devices, dim) for item in value.values()), strict=False))
        return [type(value)(zip(value, row, strict=True)) for row in rows]
    return [value for _ in devices]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments and keyword arguments for each GPU, as many as there are pieces."""
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(given), len(named))
    given += [()] * (count - len(given))
    named += [{} for _ in range(count - len(named))]
    return tuple(given), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Results of several GPUs put together along `dim` on one device; numbers of 0 dims become a
    vector."""
    place = (
        device_of(target_device) if not isinstance(target_device, str) else Device(target_device)
    )
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [o.to(place) for o in outputs]
        if all(p.ndim == 0 for p in parts) and dim == 0:
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
                UserWarning,
                stacklevel=3,
            )
            parts = [p.reshape(1) for p in parts]
        return ops.cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((k, gather([o[k] for o in outputs], place, dim)) for k in first)
    columns = [gather(column, place, dim) for column in zip(*outputs, strict=True)]
    return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
