"""Automatic mixed precision: `autocast` picks each op's dtype, `GradScaler` keeps float16
gradients from vanishing; `guard` names the op that overflowed, `ranges` which dtypes would do."""

from __future__ import annotations

import importlib
from typing import Any

from ember.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from ember.amp.grad_scaler import GradScaler
from ember.missing import missing_attribute

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
_LATER = {  # names that few programs ask for, by the module that loads then
    "guard": "overflow_guard",
    "NonFinite": "overflow_guard",
    "NonFiniteError": "overflow_guard",
    "ranges": "value_ranges",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        found = getattr(importlib.import_module(f"ember.amp.{_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise missing_attribute("torch.amp", name, lambda: sorted([*__all__, *_LATER]))
