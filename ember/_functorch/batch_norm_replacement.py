"""Batch norm without running statistics, under a private name."""

from ember.func.modules import replace_all_batch_norm_modules_

__all__ = ["replace_all_batch_norm_modules_"]
