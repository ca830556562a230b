"""The settings of `torch._dynamo`: kept where they can be read back, without effect today."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
accumulated_recompile_limit = 256
accumulated_cache_size_limit = 256
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_scalar_outputs = False
compiled_autograd = False
disable = False
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp: bool | str = True
recompile_limit = 8
suppress_errors = False
verbose = False


@contextmanager
def patch(*settings: Any, **changes: Any) -> Iterator[None]:
    """A block with some settings changed: `patch(verbose=True)`, `patch("verbose", True)` or
    `patch({"verbose": True})`."""
    if len(settings) == 2:
        changes[settings[0]] = settings[1]
    elif settings:
        changes |= settings[0]
    before = {name: globals()[name] for name in changes if name in globals()}
    globals().update(changes)
    try:
        yield
    finally:
        for name in changes:
            if name in before:
                globals()[name] = before[name]
            else:
                del globals()[name]
