"""The older face of profiles: `torch.autograd.profiler`. `torch.profiler` is the newer one."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from ember.errors import check
from ember.missing import missing_attribute
from ember.profiler.events import EventList, FunctionEvent, FunctionEventAvg, events_of
from ember.profiler.profiler import kineto_available
from ember.profiler.recorder import Recorder, record_function

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]
_LEFT_OUT = {
    "load_nvprof": "there is no nvprof",
    "parse_nvprof_trace": "there is no nvprof",
    "EnforceUnique": "it reads traces of nvprof",
    "KinetoStepTracker": "there is no Kineto",
    "MemRecordsAcc": "there is no Kineto",
}


class profile:
    """Times every op that runs in a `with` block; nothing if not `enabled`.

    >>> import ember as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     total = torch.ones(2).exp()
    >>> [event.name for event in prof.function_events]
    ['aten::exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **others: Any,
    ):
        self.enabled, self.profile_memory = enabled, profile_memory
        self.use_device = "cuda" if use_cuda else use_device
        self.record_shapes, self.with_stack = record_shapes, with_stack
        self._recorder: Recorder | None = None
        self._events: EventList | None = None

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        check(self._recorder is None, RuntimeError, "Profiler context manager is not reentrant")
        self._recorder = Recorder(
            shapes=self.record_shapes, memory=self.profile_memory, lines=self.with_stack
        )
        self._recorder.begin()
        self._origin = perf_counter_ns()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recorder is not None:
            self._recorder.finish()
            self._events = EventList(
                events_of(self._recorder.entries, self._origin),
                profile_memory=self.profile_memory,
                use_device=self.use_device,
            )

    @property
    def function_events(self) -> EventList:
        """The events. RuntimeError before the block has ended."""
        check(self._events is not None, RuntimeError, "Profiler didn't finish running")
        assert self._events is not None
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **others: Any
    ) -> EventList:
        """Events added up by name; by shapes and lines if asked for."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as a table."""
        return self.function_events.table(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host in all events."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a trace."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the user's lines with their times."""
        self.function_events.export_stacks(path, metric)

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else self.table()

    __str__ = __repr__


class emit_nvtx:
    """Would mark ops for NVIDIA's tools: it can be made, entering it raises NotImplementedError."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> Any:
        check(
            not self.enabled,
            NotImplementedError,
            f"{type(self).__name__} is not there in Ember: ops are not marked for the tools of "
            "other makers; torch.profiler.profile records them",
        )
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class emit_itt(emit_nvtx):
    """The same for Intel's tools."""


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:
        message = f"torch.autograd.profiler has no {name} in Ember: {_LEFT_OUT[name]}"
        raise AttributeError(f"{message}; torch.profiler.profile records ops", name=name)
    raise missing_attribute("torch.autograd.profiler", name, lambda: __all__)
