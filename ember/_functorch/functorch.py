"""The package `functorch`, which comes with PyTorch: older names of `torch.func`."""

from ember._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from ember.func.gradients import grad, grad_and_value, jvp, vjp
from ember.func.jacobians import hessian, jacfwd, jacrev
from ember.func.mapping import vmap
from ember.func.modules import functionalize
from ember.version import __version__

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "__version__",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]
