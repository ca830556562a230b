"""Learning-rate schedules: each sets the rates of an optimizer's groups, once an epoch or step."""

from __future__ import annotations

from ember.optim.lr_scheduler.base import LRScheduler
from ember.optim.lr_scheduler.closed_form import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ember.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from ember.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from ember.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """The name of `LRScheduler` before PyTorch 2.0, which libraries still derive from."""
