"""`torch.backends.cuda`: how products on a real GPU are computed.

On the CPU and on simulated GPUs the settings change nothing: products there are always exact to
float32.

>>> import ember as torch
>>> torch.backends.cuda.matmul.allow_tf32
False
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.errors import check
from ember.kernel.array import finish_waiting

PRECISIONS = ("highest", "high", "medium")


class MatmulSettings:
    """`torch.backends.cuda.matmul`. `precision` is what torch.set_float32_matmul_precision sets;
    AttributeError for settings that there are not, RuntimeError for what is no bool."""

    precision = "highest"
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may round their inputs to 10 bits on tensor cores."""
        return self.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self.precision = "high" if value else "highest"

    def __setattr__(self, name: str, value: Any) -> None:
        check(hasattr(type(self), name), AttributeError, f"Unknown attribute {name}")
        kind = str if name == "precision" else bool
        check(
            type(value) is kind,
            RuntimeError,
            f"set_{name}_cublas expects a {kind.__name__}, but got {type(value).__name__}",
        )
        finish_waiting()
        super().__setattr__(name, value)


matmul = MatmulSettings()


def is_built() -> bool:
    """Whether this Ember knows CUDA GPUs: so far only simulated ones, which need no CUDA.

    >>> import ember as torch
    >>> torch.backends.cuda.is_built()
    False
    """
    return False


_LEFT_OUT = {
    "cufft_plan_cache": "plans of cuFFT are not kept",
    "cuFFTPlanCache": "plans of cuFFT are not kept",
    "cuFFTPlanCacheAttrContextProp": "plans of cuFFT are not kept",
    "cuFFTPlanCacheManager": "plans of cuFFT are not kept",
    "blas_workspace_size": "workspaces are not set",
    "cublas_workspace_size": "workspaces are not set",
    "cublaslt_workspace_size": "workspaces are not set",
    "preferred_rocm_fa_library": "there are no GPUs of AMD's",
}


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:
        message = f"torch.backends.cuda has no {name} in Ember: {_LEFT_OUT[name]}"
        raise AttributeError(message, name=name)
    attention = import_module("ember.backends.cuda.attention")
    if name in attention.__all__:
        return getattr(attention, name)
    raise AttributeError(f"module 'torch.backends.cuda' has no attribute {name!r}", name=name)
