"""Neural networks: modules, their functions, initialisers and tools."""

from ember.nn import (
    attention,
    functional,
    grad,
    init,
    modules,
    parallel,
    parameter,
    quantized,
    utils,
)
from ember.nn.modules import *
from ember.nn.modules import __all__ as _module_names
from ember.nn.parallel import DataParallel
from ember.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "quantized",
    "utils",
    *_module_names,
]
