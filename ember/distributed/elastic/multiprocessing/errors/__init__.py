"""What is said when a launched process fails."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["ChildFailedError", "ProcessFailure", "record"]


class ProcessFailure:
    """How a process ended: its rank, number, exit code, and what it wrote about its error."""

    def __init__(self, local_rank: int, pid: int, exitcode: int, error_file: str, rank: int = -1):
        self.local_rank, self.pid, self.exitcode = local_rank, pid, exitcode
        self.error_file, self.rank, self.timestamp = error_file, rank, int(time.time())
        self.message = _message_of(error_file) or self._signal_message()

    def _signal_message(self) -> str:
        if self.exitcode < 0:
            return f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        return (
            "its error is above, or wrap its main function in torch.distributed.elastic."
            "multiprocessing.errors.record to see it here"
        )

    def signal_name(self) -> str:
        """The signal that ended the process; "<N/A>" if none did."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"
        except ValueError:
            return f"<Unknown signal {-self.exitcode}>"


def _message_of(path: str) -> str:
    if not path or not os.path.exists(path):
        return ""
    with open(path) as file:
        found = json.load(file)
    return (
        str(found["message"]["message"]) + "\n" + str(found["message"]["extraInfo"]["py_callstack"])
    )


class ChildFailedError(Exception):
    """One or more launched processes failed; the first is taken for the cause."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]):
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The (rank, failure) that came first."""
        return next(iter(self.failures.items()))

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """The failures as a table."""
        rank, first = self.get_first_failure()
        others = [self._entry(r, f) for r, f in self.failures.items() if r != rank]
        return "\n".join(
            [
                "",
                boarder_delim * 60,
                f"{self.name} FAILED",
                section_delim * 60,
                "Failures:",
                *(others or ["  <NO_OTHER_FAILURES>"]),
                section_delim * 60,
                "Root Cause (first observed failure):",
                self._entry(rank, first),
                boarder_delim * 60,
            ]
        )

    @staticmethod
    def _entry(rank: int, failure: ProcessFailure) -> str:
        when = time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(failure.timestamp))
        return (
            f"  time      : {when}\n"
            f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
            f"  exitcode  : {failure.exitcode} (pid: {failure.pid})\n"
            f"  traceback : {failure.message}"
        )


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """Let an error of a script's main function be seen in the launcher's report."""

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                text = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
                message = f"{type(error).__name__}: {error}"
                with open(path, "w") as file:
                    json.dump({"message": {"message": message, "extraInfo": text}}, file)
            raise

    return recorded
