"""Streams and events: orders of work, and marks in them with a time.

A simulated GPU does each piece of work when it is given, so every order holds; times are those of
its clock. On a real GPU streams and events are the driver's own: work of different streams may run
at the same time, and in any order unless one waits for the other. Memory is kept for the stream it
was made in; a tensor that another stream reads when its last name goes needs `record_stream`.
"""

from __future__ import annotations

import itertools
from typing import Any

from ember.core.executor import settle
from ember.cuda.devices import backend, current_device, index_of
from ember.device import device as Device
from ember.errors import check

_ids = itertools.count(1)
_current: dict[int, Stream] = {}
_default: dict[int, Stream] = {}


def _queue(index: int) -> Any:
    """The work of a GPU, once that which waits is given to it."""
    settle()
    return backend().queue(index)


def is_real() -> bool:
    """Whether the GPUs are real ones."""
    return not getattr(backend(), "simulated", True)


def _choose(stream: Stream) -> None:
    """Let work go to a stream."""
    _current[stream.device_index] = stream
    if is_real():
        _queue(stream.device_index).choose(stream.stream_id)


class Stream:
    """An in-order queue of work on a GPU.

    `priority` (less is sooner) has no effect on a simulated GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any):
        self.device_index = index_of(device)
        self.priority = priority
        if "stream_id" not in kwargs and is_real():
            kwargs["stream_id"] = backend().queue(self.device_index).new_stream(priority)
        self.stream_id = self.cuda_stream = kwargs.get("stream_id", next(_ids))
        self._previous: list[tuple[int, Stream]] = []

    @property
    def device(self) -> Device:
        """The GPU."""
        return Device("cuda", self.device_index)

    def query(self) -> bool:
        """Whether all work is done."""
        queue = _queue(self.device_index)
        if is_real():
            return bool(queue.idle(self.stream_id))
        queue.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for all work."""
        queue = _queue(self.device_index)
        if is_real():
            queue.synchronize(self.stream_id)
        else:
            queue.synchronize()

    def wait_stream(self, stream: Stream) -> None:
        """Let later work here wait for what is in another stream now."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Event) -> None:
        """Let later work here wait for an event."""
        check(
            isinstance(event, Event),
            TypeError,
            f"wait_event: expected an Event, not {type(event).__name__}",
        )
        if is_real() and event._time is not None:
            _queue(self.device_index).follow(self.stream_id, event._time)

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this place in the stream."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        before = current_device()
        self._previous.append((before, current_stream(self.device_index)))
        backend().set_current(self.device_index)
        _choose(self)
        return self

    def __exit__(self, *exc: object) -> None:
        before, stream = self._previous.pop()
        _choose(stream)
        backend().set_current(before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device_index, self.stream_id) == (
            other.device_index,
            other.stream_id,
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.stream_id:#x}>"
        )


class Event:
    """A mark in a stream. With enable_timing, `elapsed_time` between two is in milliseconds."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ):
        self.enable_timing = enable_timing
        self._time: Any = None  # seconds, or the driver's event
        self._queue: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Mark the current place in a stream (the current one by default)."""
        stream = current_stream() if stream is None else stream
        queue = self._queue = _queue(stream.device_index)
        self._time = queue.mark(stream.stream_id) if is_real() else queue.record()

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work in a stream wait for this event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether all work before the event is done."""
        settle()
        return not hasattr(self._queue, "reached") or bool(self._queue.reached(self._time))

    def synchronize(self) -> None:
        """Wait for the work before the event."""
        settle()
        if hasattr(self._queue, "wait_for"):
            self._queue.wait_for(self._time)
            return
        for index in range(backend().device_count()):
            _queue(index).synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another. ValueError unless both time and have been
        recorded."""
        check(
            self.enable_timing and end_event.enable_timing,
            ValueError,
            "Both events must be created with argument 'enable_timing=True'.",
        )
        check(
            self._time is not None and end_event._time is not None,
            ValueError,
            "Both events must be recorded before calculating elapsed time.",
        )
        if hasattr(self._queue, "between"):
            return float(self._queue.between(self._time, end_event._time))
        return (end_event._time - self._time) * 1000

    def __repr__(self) -> str:
        return (
            "<torch.cuda.Event>" if self._time is not None else "<torch.cuda.Event uninitialized>"
        )


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another is chosen."""
    index = index_of(device)
    if index not in _default:
        _default[index] = Stream(index, stream_id=0)
    return _default[index]


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to now."""
    index = index_of(device)
    return _current.get(index) or default_stream(index)


def set_stream(stream: Stream | None) -> None:
    """Let work go to a stream, on its device, from now on."""
    if stream is not None:
        backend().set_current(stream.device_index)
        _choose(stream)


class StreamContext:
    """A block whose work goes to a stream; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


def stream(stream: Stream | None) -> StreamContext:
    """A block whose work goes to `stream`."""
    return StreamContext(stream)


def synchronize(device: Any = None) -> None:
    """Wait for all work on a GPU."""
    _queue(index_of(device)).synchronize()


__all__ = ["Event", "Stream", "StreamContext"]
