"""The modes that change what an op does: gradients, autocast, default dtype, function overrides.

Everything here is per thread, as in PyTorch. `SPECIAL[0]` counts the modes in force that the short
path of a small op does not know; while it is 0 that path needs to look at nothing else.
"""

from __future__ import annotations

import functools
from _thread import _local  # threading.local, without the import of threading
from collections.abc import Callable
from typing import Any

from ember import dtypes
from ember.device import default_device, set_default_device
from ember.dtypes import dtype as DType
from ember.errors import check

SPECIAL = [0]
LAYOUTS = [0]  # 1 once there are sparse tensors: the part of SPECIAL for which plans need no look
MODES = [0]  # how many override modes are active, in all threads
_on_change: list[Callable[[], None]] = []  # caches that depend on the default dtype


class _Modes(_local):
    grad = True
    inference = False
    autocast: dict[str, tuple[bool, DType]] = {}
    autocast_stack: tuple[Any, ...] = ()
    autocast_cache: dict[Any, Any] | None = None
    functions: tuple[Any, ...] = ()  # active function-override modes, outermost first
    functions_off = 0  # blocks in which classes are not asked for overrides
    modes_off = 0  # nor modes
    saved_hooks: tuple[Any, ...] = ()
    forward = False  # whether forward mode is on: then recording goes on without gradients
    levels: tuple[Any, ...] = ()  # transforms in force, outermost first: levels.py


state = _Modes()
_defaults = [dtypes.float32]


def is_grad_enabled() -> bool:
    """Whether ops record for backward in this thread."""
    return state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return state.inference


class _GradMode:
    """A block, or a decorated function, with gradient recording switched."""

    enabled = True

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        if callable(function) and cls in (no_grad, enable_grad):
            cls.__init__(self)
            return self(function)
        return self

    def __enter__(self) -> None:
        self._before.append(state.grad)
        state.grad = self.enabled or state.forward

    def __exit__(self, *exc: object) -> None:
        state.grad = self._before.pop()

    def clone(self) -> Any:
        """A fresh one for a call of a decorated function."""
        return type(self)()

    def __call__(self, function: Any) -> Any:
        return decorated(self, function)


def decorated(context: Any, function: Any) -> Any:
    """A function whose calls run in a fresh `context.clone()`."""
    if isinstance(function, type):
        raise TypeError(
            "decorating a class with a grad mode is not supported: decorate its methods"
        )
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & 0x20:  # a generator: the mode holds only while it runs

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            step: Callable[[Any], Any] = made.send
            given: Any = None
            while True:
                try:
                    with context.clone():
                        value = step(given)
                except StopIteration as end:
                    return end.value
                try:
                    step, given = made.send, (yield value)
                except GeneratorExit:
                    with context.clone():
                        made.close()
                    raise
                except BaseException as error:
                    step, given = made.throw, error

        return generate

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with context.clone():
            return function(*args, **kwargs)

    return inside


class no_grad(_GradMode):
    """Inside, results do not require gradients. A context manager and a decorator.

    >>> import ember as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    enabled = False


class enable_grad(_GradMode):
    """Inside, ops record for backward again. A context manager and a decorator."""

    enabled = True


class set_grad_enabled(_GradMode):
    """Switch recording at once, and back when used as a context manager and left."""

    def __new__(cls, mode: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.enabled, self._outer = mode, state.grad
        state.grad = self.enabled or state.forward

    def __enter__(self) -> None:
        state.grad = self.enabled or state.forward

    def __exit__(self, *exc: object) -> None:
        state.grad = self._outer

    def clone(self) -> Any:
        """A fresh one for a call of a decorated function."""
        return set_grad_enabled(self.enabled)

    def __call__(self, function: Any) -> Any:
        state.grad = self._outer
        return decorated(self, function)


class inference_mode(_GradMode):
    """`no_grad` whose results can never be used for gradients; with mode=False, ordinary
    operation."""

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            cls.__init__(self, True)
            return self(mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._states: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._states.append((state.grad, state.inference))
        SPECIAL[0] += 1
        state.inference = self.mode
        state.grad = not self.mode

    def __exit__(self, *exc: object) -> None:
        SPECIAL[0] -= 1
        state.grad, state.inference = self._states.pop()

    def clone(self) -> Any:
        """A fresh one for a call of a decorated function."""
        return inference_mode(self.mode)


def get_default_dtype() -> DType:
    """The dtype of new floating-point tensors."""
    return _defaults[0]


def set_default_dtype(d: DType) -> None:
    """Make `d` (a floating-point dtype) the default; complex numbers follow it. TypeError for
    others."""
    check(isinstance(d, DType), TypeError, f"invalid dtype object: {d!r} is not a torch.dtype")
    check(
        d in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64),
        TypeError,
        "only floating-point types are supported as the default type",
    )
    _defaults[0] = d
    for changed in _on_change:
        changed()


def on_default_dtype(changed: Callable[[], None]) -> None:
    """Call `changed` whenever the default dtype is set."""
    _on_change.append(changed)


def get_default_device() -> Any:
    """The device of factories that are given none."""
    return default_device()


__all__ = ["default_device", "set_default_device"]


# autocast: a block says for one device type whether and to what ops are cast; ops look in
# core/dispatch.py

AUTOCAST_DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
_autocast_dtype = dict(AUTOCAST_DEFAULTS)


def autocast_state(device_type: str) -> tuple[bool, DType]:
    """(enabled, dtype) for a device type in this thread."""
    return state.autocast.get(
        device_type, (False, _autocast_dtype.get(device_type, dtypes.float16))
    )


def push_autocast(
    device_type: str, enabled: bool, dtype: DType, cache_enabled: bool = True
) -> None:
    """Enter an autocast block."""
    state.autocast_stack = (*state.autocast_stack, (state.autocast, state.autocast_cache))
    state.autocast = {**state.autocast, device_type: (enabled, dtype)}
    if not cache_enabled:
        state.autocast_cache = None
    elif state.autocast_cache is None:
        state.autocast_cache = {}
    SPECIAL[0] += 1


def pop_autocast() -> None:
    """Leave the innermost autocast block; the outermost one forgets the weights that it cast."""
    state.autocast, cache = state.autocast_stack[-1]
    state.autocast_stack = state.autocast_stack[:-1]
    state.autocast_cache = cache
    SPECIAL[0] -= 1


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """The dtype of autocast blocks of a device type that give none."""
    _autocast_dtype[device_type] = dtype


def clear_autocast_cache() -> None:
    """Forget the weights that autocast keeps in half precision."""
    if state.autocast_cache is not None:
        state.autocast_cache.clear()


class no_autocast:
    """A block without autocast, inside an op that a rule of autocast has cast the arguments of."""

    def __enter__(self) -> None:
        self._before = state.autocast
        state.autocast = {}

    def __exit__(self, *exc: object) -> None:
        state.autocast = self._before
