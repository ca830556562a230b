"""Memory shared with other array libraries, by the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.create import from_numpy

CPU_KIND = (1, 0)  # kDLCPU, the first of them


@composite(METHOD)
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of the tensor's memory. BufferError for what DLPack cannot tell: recorded
    tensors, conjugate views, tensors that are not on the CPU."""
    check(stream in (None, -1), AssertionError, "stream should be None on cpu.")
    check(
        not self.requires_grad,
        BufferError,
        "Can't export tensors that require gradient, use tensor.detach()",
    )
    check(
        self.device.type == "cpu",
        BufferError,
        f"Only tensors on the CPU are exported, not one on {self.device}: use tensor.cpu()",
    )
    return self.numpy().__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


@composite(METHOD)
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """The kind and index of the device, as DLPack numbers them: (1, 0) for the CPU."""
    check(
        self.device.type == "cpu",
        BufferError,
        f"Only tensors on the CPU are exported, not one on {self.device}: use tensor.cpu()",
    )
    return CPU_KIND


@composite(FUNCTION)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array, which must be on the CPU; `copy=True`
    makes it one of its own.

    >>> import ember as torch, numpy
    >>> array = numpy.arange(3)
    >>> torch.from_dlpack(array)[0] = 7
    >>> array
    array([7, 1, 2])
    """
    found = np.from_dlpack(ext_tensor)
    made = from_numpy(found.copy() if copy or not found.flags.writeable else found)
    return made if device is None else made.to(device)
