"""Gradients: `backward` and `grad`, and the modes that switch recording."""

from ember.autograd.backward import backward, grad
from ember.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]
