"""`Work`: a collective under way."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ember.distributed.errors import DistBackendError
from ember.errors import check
from ember.futures import Future


class Work:
    """A call of a collective. `wait()` returns when its results are in the tensors.

    `run` does the exchange with other processes, in any thread; `finish` then puts results where
    they were asked for (on a GPU, into a view), in the thread that waits.
    """

    def __init__(self, run: Callable[[], Any], finish: Callable[[], Any], value: Any = None):
        self._run, self._finish, self._value = run, finish, value
        self._done, self._lock = threading.Event(), threading.RLock()
        self._error: BaseException | None = None
        self._finished = False
        self._future: Future | None = None

    def execute(self) -> None:
        """Do the exchange; an error is kept for `wait`."""
        try:
            self._run()
        except BaseException as error:  # belongs to whoever waits
            self._error = error
        with self._lock:
            self._done.set()
            waited_for = self._future is not None
        if waited_for:
            self._settle()

    def _settle(self) -> None:
        """Put the results in place, once, and tell the future."""
        with self._lock:
            if not self._finished:
                self._finished = True
                if self._error is None:
                    self._finish()
            future = self._future
        if future is not None and not future.done():
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(self._value)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the results, and return True. The error of the collective is raised."""
        seconds = timeout.total_seconds() if timeout else None
        if not self._done.wait(seconds or None):
            raise DistBackendError(
                f"Timed out waiting {round((seconds or 0) * 1000)}ms for a collective that is "
                "still under way"
            )
        self._settle()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the results, or an error, are there."""
        if not self._done.is_set():
            return False
        self._settle()
        return True

    def is_success(self) -> bool:
        """Whether the results are there."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error; None if there is none."""
        return self._error

    def result(self) -> Any:
        """The tensors with the results, waited for."""
        self.wait()
        return self._value

    def synchronize(self) -> None:
        """Wait for the results."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait for the results."""
        self.wait()

    def source_rank(self) -> int:
        """Who sent what a receive from anyone has received."""
        raise RuntimeError(
            "sourceRank() may only be called on work objects that correspond to a recv"
        )

    def get_future(self) -> Future:
        """A future of the tensors with the results."""
        with self._lock:
            if self._future is None:
                self._future = Future()
            future = self._future
        if self._done.is_set():
            self._settle()
        return future


class ReceiveWork(Work):
    """A receive: the message is taken when someone waits, or asks whether it is there."""

    def __init__(self, take: Callable[[bool], Any], finish: Callable[[], Any], value: Any = None):
        super().__init__(lambda: None, finish, value)
        self._take, self._source = take, -1

    def _try(self, wait: bool) -> None:
        with self._lock:
            if self._done.is_set():
                return
            try:
                found = self._take(wait)
            except BaseException as error:  # belongs to whoever waits
                self._error, found = error, -1
            if found is not None:
                self._source = found
                self._done.set()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the message."""
        self._try(True)
        return super().wait(timeout)

    def is_completed(self) -> bool:
        """Whether the message is there."""
        self._try(False)
        return super().is_completed()

    def source_rank(self) -> int:
        """Who sent the message."""
        check(self._done.is_set(), RuntimeError, "wait() for the message first")
        return self._source

    def get_future(self) -> Future:
        """A future of the tensors, which is done: this waits."""
        self._try(True)
        return super().get_future()


class Background:
    """A thread that does the collectives of a group one after the other, begun at the first."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work) -> None:
        """Do this after what was given before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True, name="collectives")
            self._thread.start()
        self._tasks.put(work)

    def _serve(self) -> None:
        while (work := self._tasks.get()) is not None:
            work.execute()

    def stop(self) -> None:
        """End the thread, after what it still has to do."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._tasks.put(None)
            self._thread.join(5)
            self._thread = None
