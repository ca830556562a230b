"""`fork` and `wait`: in Python the function runs at once, as in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.futures import Future


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Run `func(*args, **kwargs)` now; its result is what `wait` gives.

    >>> import ember as torch
    >>> torch.jit.wait(torch.jit.fork(torch.add, torch.ones(1), 2))
    tensor([3.])
    """
    done = Future()
    done.set_result(func(*args, **kwargs))
    return done


def wait(future: Any) -> Any:
    """The result of a forked call."""
    return future.wait()
