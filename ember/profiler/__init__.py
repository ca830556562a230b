"""Where the time goes: every op timed, added up by name, as a table or a trace."""

from __future__ import annotations

from typing import Any

from ember.missing import missing_attribute
from ember.profiler.profiler import kineto_available, profile, supported_activities
from ember.profiler.recorder import record_function
from ember.profiler.schedules import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    schedule,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def __getattr__(name: str) -> Any:
    if name in ("ExecutionTraceObserver", "itt"):
        raise AttributeError(
            f"torch.profiler has no {name} in Ember: export_chrome_trace() writes what a profile "
            "recorded",
            name=name,
        )
    raise missing_attribute("torch.profiler", name, lambda: __all__)
