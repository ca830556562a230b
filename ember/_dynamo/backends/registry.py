"""The registry of backends where PyTorch keeps it."""

from ember.compiler.registered import list_backends, lookup_backend, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]
