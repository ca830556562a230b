"""Automatic mixed precision: `autocast` picks each op's dtype, `GradScaler` keeps float16
gradients from vanishing."""

from __future__ import annotations

from ember.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from ember.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
