"""Ember: tensors and neural networks with PyTorch's API, in readable Python. `import ember as
torch`.

Names only: ops come from the registry that their declarations fill, modules load at first use.
"""

from __future__ import annotations

import builtins
import gc as _gc
import importlib
import os as _os
from typing import TYPE_CHECKING, Any

_resting = _gc.isenabled()
_gc.disable()  # until the end of this file: what modules make while they load, they keep

from ember import ops
from ember.autograd import backward as _backward
from ember.core import display as _display
from ember.core.dispatch import promoted as _promoted
from ember.core.formula import FormulaOp as _FormulaOp
from ember.core.modes import (
    enable_grad,
    get_default_dtype,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_default_dtype,
    set_grad_enabled,
)
from ember.core.printing import set_printoptions
from ember.core.registry import NAMESPACES as _NAMESPACES
from ember.core.tensor import Tensor
from ember.core.typed_storages import LEGACY_CLASSES as _LEGACY_STORAGES
from ember.device import automatic as _automatic
from ember.device import default_device as _default_device
from ember.device import device, set_default_device
from ember.dtypes import ALL as _DTYPES
from ember.dtypes import QUANTIZED as _QUANTIZED
from ember.dtypes import can_cast, dtype, finfo, iinfo, promote_types
from ember.errors import AcceleratorError, OutOfMemoryError
from ember.layout import Size
from ember.missing import missing_attribute as _missing_attribute
from ember.ops import return_types
from ember.ops.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from ember.ops.legacy import CPU_TYPES as _CPU_TYPES
from ember.ops.legacy import set_default_tensor_type
from ember.serialization import pickling as _pickling  # gives tensors their copy and pickle hooks
from ember.version import __version__, ember_version

if TYPE_CHECKING:
    from ember import cuda, nn, optim

_SUBMODULES = frozenset(
    "_C __config__ _custom_ops _dynamo _functorch _guards _higher_order_ops _inductor "
    "_prims_common _subclasses accelerator amp ao autograd backends compiler cpu cuda devices "
    "distributed distributions export fft func functional futures fx hub jit library linalg "
    "masked mps mtia multiprocessing nn onnx optim overrides profiler quantization quasirandom "
    "random serialization signal sparse special storage testing torch_alias torch_version types "
    "utils version xpu".split()
)
_MODULE_OF = {  # names that live in modules which load at their first use
    "random": "manual_seed seed initial_seed get_rng_state set_rng_state",
    "serialization": "save load",
    "func": "vmap",
    "autograd.anomaly": "is_anomaly_enabled is_anomaly_check_nan_enabled",
    "storage": "Storage StorageBase TypedStorage UntypedStorage from_file is_storage",
    "core.generator": "Generator default_generator",
    "settings": "get_num_threads set_num_threads get_num_interop_threads "
    "set_num_interop_threads set_flush_denormal use_deterministic_algorithms "
    "are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled "
    "set_deterministic_debug_mode get_deterministic_debug_mode set_float32_matmul_precision "
    "get_float32_matmul_precision typename set_warn_always is_warn_always_enabled "
    "init_num_threads compiled_with_cxx11_abi",
    "amp": "autocast GradScaler",
    "accelerator": "get_device_module",
    "compiler": "compile",
    "control_flow": "cond while_loop",
    "jit._script": "ScriptModule",
    "serialization.file_reader": "PyTorchFileReader",
    "futures": "Future",
    "symbolic_numbers": "SymBool SymFloat SymInt sym_constrain_range "
    "sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite sym_max sym_min "
    "sym_not sym_sqrt sym_sum",
    "assertions": "_assert _assert_async _assert_scalar _assert_tensor_metadata _check "
    "_check_index _check_is_size _check_not_implemented _check_tensor_all "
    "_check_tensor_all_with _check_type _check_value _check_with",
    "capture.deferred": "deferred",
    "amp.autocast_mode": "is_autocast_enabled get_autocast_dtype set_autocast_dtype "
    "is_autocast_cache_enabled clear_autocast_cache",
    "amp.legacy": "is_autocast_cpu_enabled get_autocast_cpu_dtype get_autocast_gpu_dtype",
}
_ELSEWHERE = {name: module for module, names in _MODULE_OF.items() for name in names.split()}

globals().update(_NAMESPACES["torch"])
for _t in (*_DTYPES, *_QUANTIZED):
    globals()[_t.name] = _t
    if _t.alias:
        globals()[_t.alias] = _t
globals().update(_CPU_TYPES)
globals().update(_LEGACY_STORAGES)
legacy_contiguous_format = contiguous_format
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, 1e999, 1e999 - 1e999, None


_automatic[0] = lambda: importlib.import_module("ember.devices").automatic()  # device("auto")


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype that an op of two tensors or numbers computes in.

    >>> import ember as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    return _promoted((tensor1, tensor2))


def get_default_device() -> device:
    """The device of factories that are given none."""
    return _default_device()


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"ember.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ember.{name}":
                raise
    elif name in _ELSEWHERE:
        found = getattr(importlib.import_module(f"ember.{_ELSEWHERE[name]}"), name)
        globals()[name] = found
        return found
    elif name == "torch":  # torch.torch.Tensor is seen in the wild
        return importlib.import_module("ember")
    elif not name.startswith("__"):
        try:
            found = globals()[name] = _NAMESPACES["torch"][name]  # a family that loads now
            return found
        except KeyError:
            pass
    raise _missing_attribute("torch", name, lambda: __dir__())


def __dir__() -> builtins.list[str]:
    ops.load_rest()
    own = {"TYPE_CHECKING", "Any", "annotations", "builtins", "importlib", "missing"}
    return sorted({*globals(), *_NAMESPACES["torch"], *_SUBMODULES, *_ELSEWHERE} - own)


if _os.environ.get("EMBER_DEFER", "0") not in ("", "0"):
    importlib.import_module("ember.capture.deferred").install()

if _os.environ.get("EMBER_COMPILE", "0") not in ("", "0"):
    importlib.import_module("ember.compiler.everywhere").install(_os.environ["EMBER_COMPILE"])

if _resting:
    if _gc.get_stats()[2]["collections"] == 0:
        _gc.freeze()  # a program that has just begun has no garbage: nothing here need be searched
    _gc.enable()
