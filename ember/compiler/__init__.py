"""`torch.compile` and `torch.compiler`.

`compile` records what a function does and replays it (ember/capture). The questions
(`is_compiling`, ...) answer as in eager code, since a recorded function runs as it is.
"""

from __future__ import annotations

from typing import Any

from ember.compiler import config
from ember.compiler.eager import OptimizedModule, compile
from ember.compiler.marks import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    nested_compile_region,
    reset,
    set_enable_guard_collectives,
    set_stance,
    substitute_in_graph,
    wrap_numpy,
)
from ember.compiler.registered import get_default_backend, list_backends, set_default_backend

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]


def save_cache_artifacts() -> None:
    """What compilation cached, as bytes: None, as in PyTorch when nothing was compiled."""
    return None


def load_cache_artifacts(serialized_artifacts: bytes) -> Any:
    """Fill the caches of compilation: None, since there are none to fill."""
    return None
