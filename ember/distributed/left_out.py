"""Names of PyTorch that libraries import, but whose work Ember does not do: they say so when used.

A class can be asked for with isinstance, which is false, and a module with such names can be
imported; making or calling one raises NotImplementedError with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _refusal(module: str, name: str, instead: str) -> Callable[..., Any]:
    shown = f"{module.replace('ember.', 'torch.', 1)}.{name}"

    def refuse(*args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{shown} is not there in Ember: {instead}")

    return refuse


def left_out_class(
    module: str, name: str, instead: str, base: type = object, methods: str = ""
) -> Any:
    """A class of which nothing can be made; `methods` are names that refuse too."""
    refuse = _refusal(module, name, instead)
    members: dict[str, Any] = {method: staticmethod(refuse) for method in methods.split()}
    members |= {
        "__new__": refuse,
        "__doc__": f"Refused when it is made: {instead}.",
        "__module__": module,
    }
    return type(name, (base,), members)


def left_out_function(module: str, name: str, instead: str) -> Callable[..., Any]:
    """A function that refuses."""
    refuse = _refusal(module, name, instead)
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, f"Refused: {instead}."
    return refuse
