"""The names of things in files: PyTorch's, whatever the things are called here.

Files say `torch._utils _rebuild_tensor_v2`, `torch FloatStorage`, `torch.nn.modules.linear Linear`;
so they can be exchanged with PyTorch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ember.core.typed_storages import LEGACY_CLASSES, LEGACY_DTYPES
from ember.dtypes import dtype as DType

_PICKLING = "ember.serialization.pickling"
_LAYOUTS = "ember.serialization.layouts"
# (module, name) in files -> (module, name) here, where they differ by more than the first word
_HERE: dict[tuple[str, str], tuple[str, str]] = {
    **{
        ("torch._utils", name): (_PICKLING, name)
        for name in (
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_sparse_tensor",
        )
    },
    ("torch._tensor", "_rebuild_from_type_v2"): (_PICKLING, "_rebuild_from_type_v2"),
    ("torch._utils", "_rebuild_parameter"): ("ember.nn.parameter", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_parameter_with_state"): (
        "ember.nn.parameter",
        "_rebuild_parameter_with_state",
    ),
    ("torch", "Tensor"): ("ember.core.tensor", "Tensor"),
    ("torch._tensor", "Tensor"): ("ember.core.tensor", "Tensor"),
    ("torch", "Size"): ("ember.layout", "Size"),
    ("torch", "device"): ("ember.device", "device"),
    ("torch", "dtype"): ("ember.dtypes", "dtype"),
    ("torch._C", "Generator"): ("ember.core.generator", "Generator"),
    ("torch.nn.modules.module", "_WrappedHook"): ("ember.nn.modules.module_state", "_WrappedHook"),
    ("torch.utils.hooks", "RemovableHandle"): ("ember.core.hooks", "RemovableHandle"),
    ("torch.storage", "UntypedStorage"): ("ember.core.storages", "UntypedStorage"),
    ("torch.storage", "TypedStorage"): ("ember.core.typed_storages", "TypedStorage"),
    ("torch.storage", "_load_from_bytes"): ("ember.serialization.loading", "_load_from_bytes"),
    ("torch.serialization", "_get_layout"): (_LAYOUTS, "_get_layout"),
    **{("torch", name): ("ember.storage", name) for name in LEGACY_CLASSES},
}
# Modules that PyTorch has under another name; what files call so is found by its class's name.
_MODULES_THERE = {
    "ember.nn.modules.attention": "torch.nn.modules.activation",
    "ember.nn.modules.softmax": "torch.nn.modules.activation",
    "ember.nn.modules.margin_loss": "torch.nn.modules.loss",
    "ember.nn.modules.parameter_containers": "torch.nn.modules.container",
    "ember.nn.modules.rnn_cells": "torch.nn.modules.rnn",
    "ember.nn.utils.pruning": "torch.nn.utils.prune",
}
_THERE = {here: there for there, here in reversed(_HERE.items())}
_STORAGE_DTYPES: dict[str, DType] = {f"{t.title}Storage": t for t in LEGACY_DTYPES}


def name_in_files(module: str, name: str) -> tuple[str, str]:
    """The (module, name) that files use for what is called so here."""
    found = _THERE.get((module, name))
    if found is not None:
        return found
    if module in _MODULES_THERE:
        return _MODULES_THERE[module], name
    if module.startswith("ember.ops."):  # a function of torch.nn.functional, or of torch itself
        functional = sys.modules.get("ember.nn.functional")
        return "torch.nn.functional" if hasattr(functional, name) else "torch", name
    if module == "ember" or module.startswith("ember."):
        return "torch" + module.removeprefix("ember"), name
    return module, name


def find_global(module: str, name: str) -> Any:
    """The thing that files call so. AttributeError or ModuleNotFoundError if there is none.

    `torch.a.b.C` is looked for in `ember.a.b`, then in `ember.a`, then in `ember`.
    """
    place, own_name = _HERE.get((module, name), (module, name))
    if place != "torch" and not place.startswith("torch."):
        return _attribute(import_module(place), own_name)
    place = "ember" + place.removeprefix("torch")
    while True:
        try:
            return _attribute(import_module(place), own_name)
        except (ModuleNotFoundError, AttributeError):
            if "." not in place:
                break
            place = place.rpartition(".")[0]
    raise AttributeError(f"the file uses {module}.{name}, which Ember does not have")


def _attribute(found: Any, name: str) -> Any:
    for part in name.split("."):
        found = getattr(found, part)
    return found


def storage_dtype(name: str) -> DType | None:
    """The dtype of a storage class of files, by its bare name; None for bytes.

    KeyError for what is no storage class.
    """
    return None if name == "UntypedStorage" else _STORAGE_DTYPES[name]
