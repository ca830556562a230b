"""`torch._tensor_str`: tensors as text, under the names that programs reach for."""

from __future__ import annotations

from typing import Any

from ember.core import printing
from ember.core.array import host_copy
from ember.core.printing import get_printoptions, printoptions, set_printoptions
from ember.core.tensor import Tensor

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


class _PrintOptions:
    """The options in force, as attributes that can be read and set."""

    def __getattr__(self, name: str) -> Any:
        try:
            return get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"there is no print option {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        set_printoptions(**{name: value})

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in get_printoptions().items())
        return f"__PrinterOptions({listed})"


PRINT_OPTS = _PrintOptions()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers alone, with lines after the first indented."""
    return printing._format_values(host_copy(self._array), indent)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """What `repr` shows."""
    return Tensor.__repr__(self)
