"""Micro-batches on their way through a model that lies on several devices.

Each micro-batch runs the model's own forward in a thread of its own, which waits wherever the
forward goes on at another device until its turn there has come; never do two run at once. Its
backward goes stage by stage, from the cut to the cut before.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ember.autograd import backward
from ember.core import modes
from ember.core.asking import pop_mode, push_mode
from ember.core.node import _sequence
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.devices.planning.following import Crossing, Following, Placed


class _Stopped(BaseException):
    """Ends a thread whose step has failed elsewhere."""


@contextlib.contextmanager
def _off(mode: Following) -> Iterator[None]:
    """A block in which a mode is off, so that other threads need not ask for it."""
    before, modes.state.functions = modes.state.functions, (mode,)
    pop_mode()
    try:
        yield
    finally:
        push_mode(mode)
        modes.state.functions = before


class Pass:
    """One micro-batch: `advance` runs its next stage forward, `go_back` one stage backward."""

    def __init__(
        self, placed: Placed, devices: list[Device], run: Callable[[Following], Tensor | None]
    ):
        self.devices, self._run = devices, run
        self.following = Following(placed, self._boundary)
        self.following.crossings = self.crossings = []
        self.stage = 0
        self.value: Tensor | None = None
        self.crossings: list[Crossing]
        self._starts = [next(_sequence)]  # the number of the first node of each stage
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stopped = self.finished = False
        self._surroundings = {
            name: getattr(modes.state, name)
            for name in ("grad", "inference", "autocast", "autocast_stack", "functions_off")
        }

    # forward

    def advance(self, stage: int) -> None:
        """Run forward until the stage after `stage` would begin."""
        if self.finished or self.stage > stage:
            return  # this forward had nothing to do there
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._done.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _work(self) -> None:
        for name, value in self._surroundings.items():
            setattr(modes.state, name, value)
        try:
            with self.following:
                self.value = self._run(self.following)
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self.finished = True
        self.following.forget()
        self._done.release()

    def _boundary(self, device: Device) -> None:
        later = [s for s in range(self.stage + 1, len(self.devices)) if self.devices[s] is device]
        if not later:
            raise RuntimeError(
                f"this forward pass goes back to {device} after stage {self.stage} of the plan, "
                "which it did not when the plan was made: make the plan with a sample that takes "
                "the same way, or use model(x) and backward(), which need no schedule"
            )
        self.stage = later[0]
        self._starts += [next(_sequence)] * (self.stage + 1 - len(self._starts))
        with _off(self.following):
            self._done.release()
            self._go.acquire()
        if self._stopped:
            raise _Stopped

    def stop(self) -> None:
        """End the thread."""
        if self._thread is not None and not self.finished:
            self._stopped = True
            self._go.release()
            self._done.acquire()
        if self._thread is not None:
            self._thread.join()

    # backward

    def go_back(self, stage: int) -> None:
        """Carry gradients from the end of a stage to its beginning."""
        roots: list[Tensor] = []
        grads: list[Tensor | None] = []
        last = stage == len(self.devices) - 1
        if self.value is not None and (last or self._maker(self.value) == stage):
            roots, grads = [self.value], [None]
            self.value = None
        staying = []
        for crossing in self.crossings:
            if self._maker(crossing.sent) != stage:
                staying.append(crossing)
            elif crossing.arrived.grad is not None:
                gradient = crossing.arrived.grad.to(crossing.sent.device, non_blocking=True)
                roots.append(crossing.sent)
                grads.append(gradient)
                crossing.arrived.grad = None
        self.crossings[:] = staying
        if roots:
            backward(roots, grads)

    def _maker(self, tensor: Tensor) -> int:
        node = tensor.grad_fn
        if node is None:
            return 0
        return max(bisect.bisect_right(self._starts, node.sequence) - 1, 0)


@contextlib.contextmanager
def stopped_at_exit(passes: list[Pass]) -> Any:
    """A block after which no thread of the passes is left."""
    try:
        yield
    finally:
        for one in passes:
            one.stop()
