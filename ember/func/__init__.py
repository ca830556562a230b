"""Transforms of functions: derivatives, and one element's function for a whole batch.

A function of tensors goes in, a function comes out, so that transforms nest: per-sample gradients
are `vmap(grad(loss))`, a Hessian is `jacfwd(jacrev(f))`.
"""

from ember.func.gradients import grad, grad_and_value, jvp, linearize, vjp
from ember.func.jacobians import hessian, jacfwd, jacrev
from ember.func.mapping import vmap
from ember.func.modules import (
    debug_unwrap,
    functional_call,
    functionalize,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from ember.func.rearranging import rearrange

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
