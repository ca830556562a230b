"""Gradients: the engine's two entries, user functions, checks, and the modes that switch
recording. What a plain backward does not need loads at its first use."""

from importlib import import_module
from typing import Any

from ember.autograd.backward import backward, grad
from ember.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from ember.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from ember.core.tensor import Tensor as Variable
from ember.missing import missing_attribute

_MODULES = {
    "forward_ad": (),
    "functional": (),
    "graph": (),
    "anomaly": ("detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"),
    "profiler": (),
    "switches": ("enforce_grad_layout_policy", "set_multithreading_enabled", "variable"),
    "function": ("Function", "FunctionCtx", "once_differentiable"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"ember.autograd.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return import_module(f"ember.autograd.{name}")
    raise missing_attribute("torch.autograd", name, lambda: __all__)
