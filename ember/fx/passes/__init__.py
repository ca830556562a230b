"""Passes over graphs."""

from ember.fx.passes import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]
