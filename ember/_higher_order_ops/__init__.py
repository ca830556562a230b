"""Ops that take functions, under the names that programs import."""

from ember.control_flow import associative_scan, cond, scan, while_loop
from ember.control_flow import map_over as map

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
