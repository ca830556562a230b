"""Switches that change nothing here: how many threads run backward, and whose strides gradients
take."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any, NoReturn

from ember.core.tensor import Tensor


class _State(threading.local):
    multithreading = layout_policy = True


_state = _State()


class _Switch(ContextDecorator):
    """A per-thread setting that takes effect when it is made, and ends with a `with` block."""

    _name: str

    def __init__(self, value: bool):
        self.before: bool = getattr(_state, self._name)
        setattr(_state, self._name, bool(value))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        setattr(_state, self._name, self.before)


class set_multithreading_enabled(_Switch):
    """Whether backward may use a thread for each device. In Ember it runs on the calling thread
    either way.

    >>> import ember as torch
    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.ones(2, requires_grad=True).sum().backward()
    """

    _name = "multithreading"

    def __init__(self, mode: bool):
        super().__init__(mode)
        self.prev, self.mode = self.before, mode


class enforce_grad_layout_policy(_Switch):
    """Whether a gradient always has the strides of its parameter. In Ember it has either way, which
    False allows.

    >>> import ember as torch
    >>> with torch.autograd.enforce_grad_layout_policy(False):
    ...     torch.ones(2, requires_grad=True).sum().backward()
    """

    _name = "layout_policy"

    def __init__(self, enable: bool = True):
        super().__init__(enable)


def variable(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: what it did, `torch.tensor` does."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


variable.Variable = Tensor  # type: ignore[attr-defined]
