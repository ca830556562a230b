"""Data pipes: samples in order (`iter`) or by index (`map`), chained by calls."""

from ember.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
