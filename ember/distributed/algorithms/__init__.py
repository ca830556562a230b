"""Algorithms on process groups: joining with uneven inputs, and communication hooks."""

from ember.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
