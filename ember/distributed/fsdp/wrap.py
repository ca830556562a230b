"""Rules that say which modules of a model are to be wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ember.nn.modules.activation import MultiheadAttention
from ember.nn.modules.container import ModuleDict, ModuleList
from ember.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Modules of given classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules that a function takes."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Modules with so many parameters that are not wrapped yet."""
    leaves = force_leaf_modules or {MultiheadAttention}
    excluded = exclude_wrap_modules or {ModuleList, ModuleDict}
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {  # type: ignore[attr-defined]
    ModuleList,
    ModuleDict,
}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Modules of given classes."""

    def __init__(self, module_classes: Iterable[type[Module]]):
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes_str})"


class CustomPolicy:
    """Modules that a function takes, or gives settings for."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]):
        self._lambda_fn = lambda_fn
