"""The private modules that libraries import transforms from; `torch.func` is their public name."""

from importlib import import_module
from typing import Any

from ember.missing import missing_attribute

_MODULES = ("apis", "batch_norm_replacement", "eager_transforms", "functional_call", "vmap")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ember._functorch.{name}")
    raise missing_attribute("torch._functorch", name, lambda: list(_MODULES))
