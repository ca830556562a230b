"""Tensor subclasses: the same array, history and memory under another class."""

from __future__ import annotations

from typing import Any

from ember.core.registry import install_method
from ember.core.tensor import Tensor
from ember.errors import check

_new = object.__new__


def as_subclass(self: Tensor, cls: type) -> Any:
    """This tensor as an instance of a Tensor subclass; gradients flow through."""
    check(
        isinstance(cls, type) and issubclass(cls, Tensor),
        TypeError,
        f"as_subclass() expects a subclass of torch.Tensor, not {cls!r}",
    )
    made: Any = _new(cls)
    plain: Any = self.view_as(self)
    made.__dict__.update(plain.__dict__)
    return made


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """A leaf of class `cls` over the memory of `data`."""
    check(
        isinstance(data, Tensor),
        TypeError,
        f"_make_subclass() expects a Tensor, not {type(data).__name__}",
    )
    made: Any = _new(cls)
    made._array = data._array
    if require_grad:
        made.requires_grad_(True)
    return made


install_method("as_subclass", as_subclass)
install_method("_make_subclass", staticmethod(_make_subclass))
