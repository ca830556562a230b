"""The functions that PyTorch's pickles call: `torch._utils`. They are in `ember.serialization`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.missing import missing_attribute

_HOMES = {
    **dict.fromkeys(
        (
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_sparse_tensor",
        ),
        "ember.serialization.pickling",
    ),
    "_rebuild_parameter": "ember.nn.parameter",
    "_rebuild_parameter_with_state": "ember.nn.parameter",
    "_get_available_device_type": "ember.accelerator",
    "_get_device_module": "ember.accelerator",
    "ExceptionWrapper": "ember.utils.data._utils.worker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise missing_attribute("torch._utils", name, lambda: _HOMES)
    return getattr(import_module(_HOMES[name]), name)
