"""`torch.jit` without a compiler: what is scripted or traced runs as the Python that it is.

TorchScript is not compiled and its archives are not written. Everything that eager programs use of
it works: the marks (`ignore`, `unused`, `export`, ...) do what they do in eager PyTorch, `script`
and `trace` give back something to call that computes the same numbers, and `load` reads archives
that PyTorch saved and runs them with Ember's ops (`ember/jit/archive.py`).
"""

from typing import Any

from ember.jit import annotations
from ember.jit._async import Future, fork, wait
from ember.jit._async import fork as _fork
from ember.jit._async import wait as _wait
from ember.jit._script import (
    CompilationUnit,
    RecursiveScriptClass,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    ScriptWarning,
    freeze,
    optimize_for_inference,
    run_frozen_optimizations,
    save,
    script,
    script_method,
)
from ember.jit._trace import (
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    is_tracing,
    trace,
    trace_module,
)
from ember.jit.archive import load
from ember.jit.marks import (
    Attribute,
    Error,
    Final,
    _hide_source_ranges,
    _IgnoreContextManager,
    _isinstance,
    _overload,
    _overload_method,
    _script_if_tracing,
    _unwrap_optional,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    script_if_tracing,
    unused,
)
from ember.jit.marks import isinstance_ as isinstance
from ember.jit.settings import (
    enable_onednn_fusion,
    fuser,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
)
from ember.jit.settings import set_fusion_strategy as _set_fusion_strategy

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptClass",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "_IgnoreContextManager",
    "_fork",
    "_hide_source_ranges",
    "_isinstance",
    "_overload",
    "_overload_method",
    "_script_if_tracing",
    "_set_fusion_strategy",
    "_unwrap_optional",
    "_wait",
    "annotate",
    "annotations",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "set_module",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def set_module(obj: Any, mod: str) -> None:
    """Set `obj.__module__` to a name."""
    obj.__module__ = mod


def export_opnames(m: Any) -> list[str]:
    """The ops that a scripted module calls: NotImplementedError, since nothing is compiled."""
    raise NotImplementedError(
        "torch.jit.export_opnames(): TorchScript is not compiled here, so there is no list of ops"
    )
