"""`spawn`: a function in several processes, whose first error is raised in this one."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]
PATIENCE_SECONDS = 30.0  # how long a process may take to end after it was told to


class ProcessException(Exception):
    """A process did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an error, whose traceback is the message."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal, or with an exit code other than 0."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg,
            self.error_index,
            self.pid,
            self.exit_code,
            self.signal_name,
        )


def _end_with_parent() -> None:
    """Ask Linux to interrupt this process when its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], error_file: str) -> None:
    """The life of a process: the function, and the text of its error into a file."""
    _end_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent reports it, or is gone
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that `start_processes` has started."""

    def __init__(self, processes: list[Any], error_files: list[str]):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for processes to end; True once all have.

        When one fails the others are terminated, and ProcessRaisedException or
        ProcessExitedException is raised. A `timeout` in seconds returns False.
        """
        if not self.sentinels:
            return True
        ended = connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ended:
            index = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            if not self.sentinels:
                self._remove_files()
            return not self.sentinels
        self._stop_all(grace_period)
        try:
            self._raise(failed)
        finally:
            self._remove_files()
        return False

    def _stop_all(self, grace_period: float | None) -> None:
        deadline = time.monotonic() + (grace_period or 0)
        if grace_period:
            for process in self.processes:
                process.join(max(0.0, deadline - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + PATIENCE_SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                warnings.warn(f"process {process.pid} did not end: it is killed", stacklevel=3)
                process.kill()
            process.join()

    def _raise(self, index: int) -> None:
        process, file = self.processes[index], self.error_files[index]
        if os.path.exists(file) and os.path.getsize(file):
            with open(file, "rb") as opened:
                text = pickle.load(opened)
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )

    def _remove_files(self) -> None:
        for file in self.error_files:
            if os.path.exists(file):
                os.unlink(file)


class SpawnContext(ProcessContext):
    """Processes that `spawn` has started."""


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` new processes, i from 0 on; wait for them if `join`."""
    context = multiprocessing.get_context(start_method)
    files, processes = [], []
    for index in range(nprocs):
        descriptor, path = tempfile.mkstemp(prefix="spawn-error-", suffix=".pickle")
        os.close(descriptor)
        os.unlink(path)  # the process makes it, if it fails
        files.append(path)
        process = context.Process(target=_run, args=(fn, index, args, path), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
    made = SpawnContext(processes, files) if start_method == "spawn" else None
    made = made or ProcessContext(processes, files)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` fresh processes; the first error of one is raised here.

    `fn` must be importable: a function of a module or of the script, whose own work stands under
    `if __name__ == "__main__":`.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}). To use a "
            "different start_method use: torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
