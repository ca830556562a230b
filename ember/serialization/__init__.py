"""Saving and loading: `torch.save`, `torch.load`, and what files may hold. `torch.serialization`.

The modules load when one of their names is first used: a program that saves nothing pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.missing import missing_attribute

_MODULES = {
    "loading": ("get_unsafe_globals_in_checkpoint", "load"),
    "saving": ("DEFAULT_PROTOCOL", "save"),
    "location": (
        "MAP_LOCATION",
        "default_restore_location",
        "location_tag",
        "register_package",
        "validate_cuda_device",
    ),
    "allowed_globals": (
        "add_safe_globals",
        "clear_safe_globals",
        "get_safe_globals",
        "safe_globals",
    ),
    "layouts": ("_get_layout",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(name for name in _HOMES if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise missing_attribute("torch.serialization", name, lambda: _HOMES)
    module = import_module(f"ember.serialization.{_HOMES[name]}")
    for own in _MODULES[_HOMES[name]]:
        globals()[own] = getattr(module, own)
    return globals()[name]
