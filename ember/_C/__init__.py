"""`torch._C`: what programs reach for below PyTorch's public surface, where Ember has it."""

from __future__ import annotations

import importlib
from typing import Any

from ember._C.dispatch_keys import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from ember._C.script_graph import Block, Graph, Node, Value
from ember.core.asking import no_class_asked as DisableTorchFunctionSubclass
from ember.core.asking import nobody_asked as DisableTorchFunction
from ember.core.generator import Generator
from ember.core.modes import is_grad_enabled, is_inference_mode_enabled, set_grad_enabled, state
from ember.core.tensor import Tensor
from ember.core.tensor import Tensor as TensorBase
from ember.core.tensor import disabled_torch_function as _disabled_torch_function_impl
from ember.device import default_device as _get_default_device
from ember.device import device
from ember.dtypes import dtype, finfo, iinfo
from ember.futures import Future
from ember.layout import Size
from ember.missing import missing_attribute
from ember.ops.formats import layout, memory_format
from ember.overrides import _len_torch_function_stack
from ember.overrides import has_torch_function as _has_torch_function
from ember.overrides import has_torch_function_unary as _has_torch_function_unary
from ember.overrides import has_torch_function_variadic as _has_torch_function_variadic
from ember.symbolic_numbers import SymBool, SymFloat, SymInt

_TensorBase = TensorBase
_TensorMeta = type(TensorBase)
has_mkl = has_openmp = has_lapack = True
_has_mps = _has_cuda = _has_xpu = _has_mkldnn = False
_GLIBCXX_USE_CXX11_ABI = True
_SUBMODULES = ("_nn", "_functorch", "_autograd", "_fft", "_linalg", "_special")

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Future",
    "Generator",
    "Size",
    "SymBool",
    "SymFloat",
    "SymInt",
    "TensorBase",
    "_ExcludeDispatchKeyGuard",
    "device",
    "dtype",
    "finfo",
    "iinfo",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "layout",
    "memory_format",
]


def _get_tracing_state() -> None:
    """The tracer at work: none, there is no TorchScript."""


def _are_functorch_transforms_active() -> bool:
    """Whether this runs inside vmap or another transform that replaces tensors."""
    return bool(state.levels)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a TorchFunctionMode is in force."""
    return _len_torch_function_stack() > 0


def _is_alias_of(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors share a storage."""
    return bool(first._array.storage is second._array.storage)


def _get_accelerator(check: bool | None = None) -> Any:
    """The accelerator's kind, or the CPU where there is none."""
    found = importlib.import_module("ember.accelerator").current_accelerator()
    return device("cpu") if found is None else found


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_privateuse1_backend_name() -> str:
    """The name of a backend of others; none was registered."""
    return "privateuseone"


def _set_grad_enabled(enabled: bool) -> None:
    """Switch the recording of gradients in this thread."""
    set_grad_enabled(enabled)


class _AutoDispatchBelowAutograd:
    """A block without recording for gradients."""

    def __enter__(self) -> None:
        self._before = is_grad_enabled()
        set_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        set_grad_enabled(self._before)


# Settings of TorchScript's optimizer: kept and given back, there is no such optimizer.
_settings: dict[str, bool] = {"profiling_executor": True, "profiling_mode": True}


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Keep a setting of TorchScript; returns the one before."""
    return _exchange("profiling_executor", enabled)


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Keep a setting of TorchScript; returns the one before."""
    return _exchange("profiling_mode", enabled)


def _jit_set_nvfuser_enabled(enabled: bool) -> bool:
    """Keep a setting of TorchScript; returns the one before."""
    return _exchange("nvfuser", enabled)


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Keep a setting of TorchScript."""
    _exchange("texpr_fuser", enabled)


def _jit_texpr_fuser_enabled() -> bool:
    """A setting of TorchScript."""
    return _settings.get("texpr_fuser", True)


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Keep a setting of TorchScript."""
    _exchange("fuse_on_gpu", enabled)


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """Keep a setting of TorchScript."""
    _exchange("fuse_on_cpu", enabled)


def _exchange(name: str, enabled: bool) -> bool:
    before = _settings.get(name, False)
    _settings[name] = bool(enabled)
    return before


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"ember._C.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ember._C.{name}":
                raise
    if name == "_VariableFunctions":
        return importlib.import_module("ember")
    raise missing_attribute("torch._C", name, lambda: globals())
