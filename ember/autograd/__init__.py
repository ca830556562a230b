"""Gradients: the engine's two entries, user functions, checks, and the modes that switch
recording."""

from ember.autograd import functional, graph
from ember.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from ember.autograd.backward import backward, grad
from ember.autograd.function import Function, FunctionCtx, once_differentiable
from ember.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from ember.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from ember.core.tensor import Tensor as Variable

__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
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
]
