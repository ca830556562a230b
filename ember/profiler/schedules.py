"""What a profile does at each step, and where its traces go."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable
from typing import Any

from ember.errors import check


class ProfilerActivity(enum.Enum):
    """What is profiled: the host, or GPUs too (simulated ones by their simulated clock)."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(enum.Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A schedule of cycles: `wait` steps of nothing, `warmup` of running in, `active` of recording;
    after `skip_first` steps, `repeat` times (0: without end). With skip_first_wait the first cycle
    does not wait. AssertionError for negative numbers or nothing active.

    >>> import ember as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=0, active=1)
    >>> plan(0), plan(1)
    (<ProfilerAction.NONE: 0>, <ProfilerAction.RECORD_AND_SAVE: 3>)
    """
    check(
        wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0,
        AssertionError,
        "Invalid profiler schedule arguments",
    )

    def action(step: int) -> ProfilerAction:
        check(step >= 0, AssertionError, "a step is counted from 0")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """The schedule of a profile that was given none."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """A handler for `on_trace_ready` that writes each trace to a file of its own in a folder.

    RuntimeError if the folder cannot be made.
    """

    def handle(profile: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{os.uname().nodename}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profile.export_chrome_trace(os.path.join(dir_name, name))

    return handle
