"""Logs of runs for TensorBoard, written through the package `tensorboard`."""

from __future__ import annotations

from ember.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
