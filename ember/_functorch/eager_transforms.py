"""Gradient transforms under a private name."""

from ember.func.gradients import grad, grad_and_value, jvp, linearize, vjp
from ember.func.jacobians import hessian, jacfwd, jacrev
from ember.func.modules import functionalize

__all__ = [
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]
