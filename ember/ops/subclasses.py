"""Tensor subclasses: the same array, history and memory under another class."""

from __future__ import annotations

from typing import Any

from ember.core import asking as asking  # gives overriding classes their attributes
from ember.core.registry import install_method
from ember.core.tensor import Tensor, check_differentiable
from ember.errors import check

_new = object.__new__


def as_subclass(self: Tensor, cls: type) -> Any:
    """This tensor as an instance of a Tensor subclass; gradients flow through."""
    check_subclass(cls)
    _refuse_dispatch(cls)
    made: Any = _new(cls)
    with asking.nobody_asked():
        plain: Any = self.view_as(self)  # type: ignore[attr-defined]
    made.__dict__.update(plain.__dict__)
    return made


def check_subclass(cls: Any) -> None:
    """TypeError unless `cls` is Tensor or a subclass of it."""
    check(
        isinstance(cls, type) and issubclass(cls, Tensor),
        TypeError,
        f"Creating a Tensor subclass from a class that does not inherit from Tensor is not "
        f"possible. Make sure your class inherits from Tensor: {cls!r} is no subclass of "
        f"torch.Tensor.",
    )


def _refuse_dispatch(cls: type) -> None:
    """NotImplementedError for a class that wants to be asked below autograd."""
    check(
        not hasattr(cls, "__torch_dispatch__"),
        NotImplementedError,
        f"{cls.__name__} has a __torch_dispatch__, which Ember never asks: ops are not dispatched "
        "to Python below autograd. Give the class a __torch_function__ instead.",
    )


def _make_wrapper_subclass(cls: type, size: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor without memory, for classes with `__torch_dispatch__`: NotImplementedError."""
    check_subclass(cls)
    _refuse_dispatch(cls)
    raise NotImplementedError(
        f"_make_wrapper_subclass(): {cls.__name__} would be a tensor without memory, which only "
        "__torch_dispatch__ could compute with, and Ember never asks that. Make the class hold its "
        "tensors with torch.Tensor._make_subclass, and give it a __torch_function__."
    )


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **kwargs: Any) -> Any:
    """A leaf of class `cls` over the memory of `data`."""
    check_subclass(cls)
    check(
        isinstance(data, Tensor),
        TypeError,
        f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}",
    )
    _refuse_dispatch(cls)
    made: Any = _new(cls)
    made._array = data._array
    if require_grad:
        check_differentiable(made._array.spec, True)
        made._requires_grad = True
    return made


install_method("as_subclass", as_subclass)
install_method("_make_subclass", staticmethod(_make_subclass))
install_method("_make_wrapper_subclass", staticmethod(_make_wrapper_subclass))
