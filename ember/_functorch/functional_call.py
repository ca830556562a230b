"""Calls of modules with other parameters, under a private name."""

from ember.func.modules import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
