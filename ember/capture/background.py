"""Programs are made beside the running one: a single thread makes them in turn, and calls run
eagerly until theirs is ready."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]

QUICK = 1e-4  # seconds after which the thread lets others go on that wait for the interpreter
PAUSE = 1e-3  # seconds between two looks while it waits for a fork


class Stopped(BaseException):
    """The process ends: nobody will use what is being made."""


class Background:
    """A queue of jobs and the thread that does them; `at_once` does them where they are given,
    which EMBER_COMPILE_WAIT=1 asks for.

    In a child process, forked while a job was being done, the job starts again from the beginning.
    """

    def __init__(self) -> None:
        self.at_once = os.environ.get("EMBER_COMPILE_WAIT", "0") not in ("", "0")
        self.jobs: deque[Job] = deque()
        self.stopping = False
        self._new()

    def _new(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.working = threading.Lock()  # held by the thread while it may be inside a compiler
        self.forking = False
        self.thread = 0  # its number
        self.ended = threading.Lock()  # held while the thread lives

    def put(self, job: Job) -> None:
        """Do a job soon, or now where there is no other thread to do it."""
        if self.at_once or self.stopping:
            job()
            return
        with self.changed:
            self.jobs.append(job)
            self.changed.notify_all()
        self.start()

    def start(self) -> None:
        """See that there is a thread, if there is something to do."""
        if self.thread or not self.jobs:
            return
        self.ended.acquire()
        try:  # not a `Thread`, whose start waits until the new thread has had its first turn
            self.thread = _thread.start_new_thread(self._work, ())
        except RuntimeError:  # there can be no more threads
            self.ended.release()
            while self.jobs:
                self.jobs.popleft()()

    def wait(self) -> None:
        """Return when all jobs are done."""
        self.start()
        with self.changed:
            while self.jobs:
                self.changed.wait()

    def step(self) -> None:
        """Called by jobs between their parts: here they stop, and here a fork finds them."""
        if _thread.get_ident() != self.thread:
            return
        if self.forking:
            self.working.release()
            while self.forking:
                time.sleep(PAUSE)
            self.working.acquire()
        if self.stopping:
            raise Stopped

    def _work(self) -> None:
        try:
            self._do_all()
        finally:
            self.ended.release()

    def _do_all(self) -> None:
        while True:
            with self.changed:
                while not self.jobs:
                    self.changed.wait()
            time.sleep(PAUSE)  # the call that gave the job returns first
            before = sys.getswitchinterval()
            sys.setswitchinterval(min(before, QUICK))
            try:
                with self.working:
                    self.step()
                    self.jobs[0]()
            except Stopped:
                return
            finally:
                sys.setswitchinterval(before)
                with self.changed:
                    self.jobs.popleft()  # not before: a forked child starts it again
                    self.changed.notify_all()

    # the ends of processes

    def stop(self) -> None:
        """Leave what is not done, once the compiler is through with the kernel at hand."""
        self.stopping = True
        if self.thread and self.jobs:
            self.ended.acquire()

    def before_fork(self) -> None:
        """A child must not find the compiler in the middle of something."""
        self.forking = True
        self.working.acquire()
        self.changed.acquire()

    def after_in_parent(self) -> None:
        """Go on."""
        self.changed.release()
        self.working.release()
        self.forking = False

    def after_in_child(self) -> None:
        """The thread stayed with the parent; what is to be done waits for a new one."""
        self._new()


background = Background()
atexit.register(background.stop)
with contextlib.suppress(AttributeError):  # systems without fork
    os.register_at_fork(
        before=background.before_fork,
        after_in_parent=background.after_in_parent,
        after_in_child=background.after_in_child,
    )
