"""`torch.backends.cuda`: which kernels attention may use, and workspaces of libraries.

Attention in Ember is one function of plain ops on every device, so the switches only remember.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ember.errors import check


class Switch:
    """A setting that is on until it is turned off."""

    def __init__(self, on: bool = True):
        self.on = on


_flash, _math, _memory_efficient, _cudnn = Switch(), Switch(), Switch(), Switch()
_reduction = Switch(False)


def flash_sdp_enabled() -> bool:
    """Whether attention may use flash attention."""
    return _flash.on


def enable_flash_sdp(enabled: bool) -> None:
    """Let attention use flash attention, or not."""
    _flash.on = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may use plain products."""
    return _math.on


def enable_math_sdp(enabled: bool) -> None:
    """Let attention use plain products, or not."""
    _math.on = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use kernels that save memory."""
    return _memory_efficient.on


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Let attention use kernels that save memory, or not."""
    _memory_efficient.on = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN."""
    return _cudnn.on


def enable_cudnn_sdp(enabled: bool) -> None:
    """Let attention use cuDNN, or not."""
    _cudnn.on = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether attention by plain products may add up in half precision."""
    return _reduction.on


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Let attention by plain products add up in half precision, or not."""
    _reduction.on = bool(enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[Any, Any]]:
    """All four switches for a block; `torch.nn.attention.sdpa_kernel` is its successor."""
    switches = (_flash, _math, _memory_efficient, _cudnn)
    before = [switch.on for switch in switches]
    wanted = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    try:
        for switch, on in zip(switches, wanted, strict=True):
            switch.on = bool(on)
        yield {}
    finally:
        for switch, on in zip(switches, before, strict=True):
            switch.on = on


def is_flash_attention_available() -> bool:
    """Whether there is a kernel for flash attention: no."""
    return False


def is_ck_sdpa_available() -> bool:
    """Whether there is a kernel of AMD's for attention: no."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Whether flash attention would run for these arguments: no."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Whether a kernel that saves memory would run for these arguments: no."""
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """Whether cuDNN would run for these arguments: no."""
    return False


class BlasLibrary(enum.Enum):
    """Who multiplies matrices on a GPU."""

    Default = 0
    Cublas = 1


class LinalgLibrary(enum.Enum):
    """Who factors matrices on a GPU."""

    Default = 0


def preferred_blas_library(backend: Any = None) -> BlasLibrary:
    """Who multiplies matrices on a GPU: cuBLAS. RuntimeError for another wish."""
    check(
        backend in (None, "default", "cublas", *BlasLibrary),
        RuntimeError,
        f"Ember multiplies by cuBLAS on real GPUs: {backend!r} is not there. Choose from: default, "
        "cublas.",
    )
    return BlasLibrary.Cublas


def preferred_linalg_library(backend: Any = None) -> LinalgLibrary:
    """Who factors matrices on a GPU: the default. RuntimeError for another wish."""
    check(
        backend in (None, "default", *LinalgLibrary),
        RuntimeError,
        f"Unknown input value {backend!r}. Choose from: default.",
    )
    return LinalgLibrary.Default


__all__ = [
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]
