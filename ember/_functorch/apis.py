"""`vmap`, `grad` and `grad_and_value` under a private name."""

from ember.func.gradients import grad, grad_and_value
from ember.func.mapping import vmap

__all__ = ["grad", "grad_and_value", "vmap"]
