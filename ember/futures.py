"""Values that are still to come (`torch.futures`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ember.errors import check

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that another thread sets, and that can be waited for.

    >>> import ember as torch
    >>> later = torch.futures.Future()
    >>> doubled = later.then(lambda done: done.value() * 2)
    >>> later.set_result(21)
    >>> doubled.wait()
    42
    """

    def __init__(self, *, devices: Any = None):
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __class_getitem__(cls, _: Any) -> type[Future]:
        return cls

    def done(self) -> bool:
        """Whether the value, or an error, is there."""
        return self._ready.is_set()

    def wait(self) -> Any:
        """The value, waited for; the error is raised."""
        self._ready.wait()
        return self.value()

    def value(self) -> Any:
        """The value; RuntimeError while there is none. The error is raised."""
        check(
            self._ready.is_set(),
            RuntimeError,
            "the future has no value yet: wait() for it",
        )
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of `callback(self)`, which is called once this one is done."""
        made = Future()

        def follow(done: Future) -> None:
            try:
                made.set_result(callback(done))
            except Exception as error:  # whoever waits for the second future gets it
                made.set_exception(error)

        self.add_done_callback(follow)
        return made

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(self)` once this is done: now, if it is."""
        with self._lock:
            if not self._ready.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        """Set the value. RuntimeError if the future is done."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let `wait` and `value` raise an error."""
        check(
            isinstance(result, BaseException),
            AssertionError,
            f"{result} is of type {type(result)}, not an Exception.",
        )
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            check(
                not self._ready.is_set(),
                RuntimeError,
                "Future can only be marked completed once: its value is set already",
            )
            self._value, self._error = value, error
            self._ready.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def collect_all(futures: Sequence[Future]) -> Future:
    """A future of the list of `futures`, done when all of them are; the first error is its own."""
    made, left, lock = Future(), [len(futures)], threading.Lock()

    def count(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            _conclude(made, futures)

    if not futures:
        made.set_result([])
    for future in futures:
        future.add_done_callback(count)
    return made


def _conclude(made: Future, futures: Sequence[Future]) -> None:
    errors = [future._error for future in futures if future._error is not None]
    if errors:
        made.set_exception(errors[0])
    else:
        made.set_result(list(futures))


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values of all futures, waited for; the first error is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
