"""What programs use of `torch._prims_common`."""

from __future__ import annotations

import warnings
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.settings import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
)

TensorLike = Tensor


def alert_not_deterministic(caller: str) -> None:
    """RuntimeError, or a warning, where only deterministic algorithms are wanted."""
    if not are_deterministic_algorithms_enabled():
        return
    told = (
        f"{caller} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'"
    )
    check(is_deterministic_algorithms_warn_only_enabled(), RuntimeError, told)
    warnings.warn(told, stacklevel=2)


def is_cpu_scalar_tensor(a: Any) -> bool:
    """Whether `a` is a tensor of no dims on the CPU."""
    return isinstance(a, Tensor) and a.dim() == 0 and a.device.type == "cpu"
