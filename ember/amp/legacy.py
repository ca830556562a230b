"""The names that `torch.cuda.amp` and `torch.cpu.amp` had before `torch.amp`; each warns and
passes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ember import dtypes
from ember.amp import autocast_mode, grad_scaler

__all__ = [
    "CpuAutocast",
    "CpuGradScaler",
    "CudaAutocast",
    "CudaGradScaler",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
]


def _warn(kind: str, name: str) -> None:
    warnings.warn(
        f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('{kind}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class CudaAutocast(autocast_mode.autocast):
    """`torch.amp.autocast("cuda", ...)` under its old name, `torch.cuda.amp.autocast`."""

    def __init__(
        self, enabled: bool = True, dtype: dtypes.dtype = dtypes.float16, cache_enabled: bool = True
    ) -> None:
        _warn("cuda", "autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class CpuAutocast(autocast_mode.autocast):
    """`torch.amp.autocast("cpu", ...)` under its old name, `torch.cpu.amp.autocast`."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        _warn("cpu", "autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class CudaGradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)` under its old name, `torch.cuda.amp.GradScaler`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("cuda", "GradScaler")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


class CpuGradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler("cpu", ...)` under its old name, `torch.cpu.amp.GradScaler`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("cpu", "GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtypes.dtype | None = None
) -> Any:
    """`torch.amp.custom_fwd(..., device_type="cuda")` under its old name,
    `torch.cuda.amp.custom_fwd`."""
    _warn_decorator("custom_fwd")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`torch.amp.custom_bwd(..., device_type="cuda")` under its old name,
    `torch.cuda.amp.custom_bwd`."""
    _warn_decorator("custom_bwd")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")


def _warn_decorator(name: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}(args..., "
        "device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=3,
    )


def _warn_query(old: str, new: str) -> None:
    warnings.warn(
        f"torch.{old}() is deprecated. Please use torch.{new} instead.",
        DeprecationWarning,
        stacklevel=3,
    )


def is_autocast_cpu_enabled() -> bool:
    """`torch.is_autocast_enabled("cpu")` under its old name."""
    _warn_query("is_autocast_cpu_enabled", "is_autocast_enabled('cpu')")
    return autocast_mode.is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """`torch.get_autocast_dtype("cpu")` under its old name."""
    _warn_query("get_autocast_cpu_dtype", "get_autocast_dtype('cpu')")
    return autocast_mode.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """`torch.get_autocast_dtype("cuda")` under its old name."""
    _warn_query("get_autocast_gpu_dtype", "get_autocast_dtype('cuda')")
    return autocast_mode.get_autocast_dtype("cuda")
