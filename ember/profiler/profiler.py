"""`profile`: a block of a program with every op in it timed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

from ember.backends.base import has_backend
from ember.errors import check
from ember.profiler.events import EventList, events_of
from ember.profiler.recorder import Recorder, record_function
from ember.profiler.schedules import ProfilerAction, ProfilerActivity, always
from ember.profiler.trace import write_trace

RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Times every op that runs in a `with` block, on the host and on GPUs.

    `record_shapes` keeps the shapes of operands, `profile_memory` the bytes of results,
    `with_stack` the user's line. With a `schedule`, `step()` moves on; `on_trace_ready(self)` is
    called when a recording ends. Ops that compute nothing, as views, are not in it.

    >>> import ember as torch
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> [(event.name, event.input_shapes) for event in prof.events()]
    [('aten::matmul', [[2, 3], [3, 4]])]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities else set(ProfilerActivity)
        check(
            execution_trace_observer is None,
            NotImplementedError,
            "profile: execution traces are not there; export_chrome_trace() writes the record",
        )
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.use_device = "cuda" if use_cuda or ProfilerActivity.CUDA in self.activities else None
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.metadata: dict[str, Any] = {}
        self._recorder: Recorder | None = None
        self._step: record_function | None = None
        self._events: EventList | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as the schedule says."""
        if self.current_action in RECORDING:
            self.start_trace()
        self._mark_step()

    def stop(self) -> None:
        """End; what was recorded is ready."""
        self._end_step()
        if self._recorder is not None:
            self.stop_trace()
            self._ready()

    def step(self) -> None:
        """Go on to the next step of the schedule."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        ends = before is ProfilerAction.RECORD_AND_SAVE or self.current_action not in RECORDING
        if self._recorder is not None and ends:
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._ready()
        if self.current_action in RECORDING and self._recorder is None:
            self.start_trace()
        self._mark_step()

    def _mark_step(self) -> None:
        if self.record_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start_trace(self) -> None:
        """Begin to record. RuntimeError if another profile does."""
        recorder = Recorder(
            shapes=self.record_shapes, memory=self.profile_memory, lines=self.with_stack
        )
        recorder.begin()
        self._recorder, self._origin = recorder, perf_counter_ns()

    def stop_trace(self) -> None:
        """End the recording."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        recorder.finish()
        found = events_of(recorder.entries, self._origin)
        on_gpu = [event for event in found if event.use_device is not None]
        kept = self._events if self.acc_events and self._events is not None else ()
        self._events = EventList(
            [*kept, *found],
            profile_memory=self.profile_memory,
            use_device=self.use_device if on_gpu else None,
        )

    def events(self) -> EventList:
        """The events of the last recording. AssertionError before there is one."""
        check(
            self._events is not None,
            AssertionError,
            "the profile has not recorded anything yet: events are there when its block has ended",
        )
        assert self._events is not None
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events added up by name; by shapes and lines if asked for."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a trace that chrome://tracing and Perfetto show."""
        write_trace(path, self.events(), self.metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the user's lines with their times, for flame graphs; needs with_stack=True."""
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """NotImplementedError."""
        raise NotImplementedError(
            "export_memory_timeline is not there: profile_memory=True gives the bytes of each op, "
            "torch.cuda.memory_summary() what a GPU holds"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Note a text in the trace."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Note a value, given as JSON, in the trace."""
        self.metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


def supported_activities() -> set[ProfilerActivity]:
    """What can be profiled here."""
    found = {ProfilerActivity.CPU}
    return found | {ProfilerActivity.CUDA} if has_backend("cuda") else found


def kineto_available() -> bool:
    """Whether profiles can be taken: always, without the library of that name."""
    return True
