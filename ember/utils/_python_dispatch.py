"""`torch.utils._python_dispatch`: Ember has no dispatch below its ops; overrides are asked above
them."""

from __future__ import annotations

from typing import Any

INSTEAD = (
    "ops are not dispatched to Python below autograd in Ember: see every call with "
    "torch.overrides.TorchFunctionMode, or give the class a __torch_function__"
)


class TorchDispatchMode:
    """A mode below autograd. Entering one raises NotImplementedError."""

    def __init__(self, _dispatch_key: Any = None):
        pass

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(INSTEAD)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: {INSTEAD}")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        pass

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode of this class, to be entered."""
        return cls(*args, **kwargs)


BaseTorchDispatchMode = TorchDispatchMode


def _get_current_dispatch_mode() -> None:
    """The innermost mode: none can be entered."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes in force: none can be entered."""
    return []


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether such a mode is in force: no."""
    return False


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether `t` is a tensor subclass that says how it is taken apart and put together:
    `__tensor_flatten__` and `__tensor_unflatten__`."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class says how its tensors are taken apart and put together."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Results of `__torch_dispatch__` with their memory shared as the op's schema says; only such
    methods call it."""
    raise NotImplementedError(INSTEAD)
