"""The events of a profile, their averages by name, and both as tables and traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ember.errors import check
from ember.profiler.recorder import Entry, shapes_of
from ember.profiler.text import memory_text, table_of, time_text
from ember.profiler.trace import write_trace


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float):
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class _Times:
    """The figures that events and averages share, derived from totals."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    flops = 0
    node_id = -1
    is_async = is_remote = is_legacy = False
    overload_name = ""
    use_device: str | None = None
    scope = 0

    @property
    def cpu_time(self) -> float:
        """Microseconds of the host in an average call, with what it called."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of the GPU in an average call."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time(self) -> float:
        """An older name of `device_time`."""
        return self.device_time

    cpu_time_str = property(lambda self: time_text(self.cpu_time))
    cpu_time_total_str = property(lambda self: time_text(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: time_text(self.self_cpu_time_total))
    device_time_str = property(lambda self: time_text(self.device_time))
    device_time_total_str = property(lambda self: time_text(self.device_time_total))
    self_device_time_total_str = property(lambda self: time_text(self.self_device_time_total))


class FunctionEvent(_Times):
    """One call of an op, or one block that `record_function` named; times in microseconds."""

    count = 1

    def __init__(self, number: int, entry: Entry, origin: int):
        self.id, self.name, self.thread = number, entry.name, entry.thread
        self.key = self.trace_name = entry.name
        self.time_range = Interval((entry.start - origin) / 1e3, (entry.end - origin) / 1e3)
        self.is_user_annotation = entry.is_block
        self.input_shapes = shapes_of(entry.specs)
        self.stack = [] if entry.line is None else [f"{entry.line[0]}({entry.line[1]})"]
        on_gpu = entry.device is not None and entry.device.type == "cuda"
        self.use_device = "cuda" if on_gpu else None
        self.device_index = entry.device.index if on_gpu and entry.device is not None else 0
        self.self_cpu_memory_usage = 0 if on_gpu else entry.nbytes
        self.self_device_memory_usage = entry.nbytes if on_gpu else 0
        self.self_device_time_total = entry.device_ns / 1e3
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from begin to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """The time that no event inside accounts for."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the GPU, with the events inside."""
        inner = sum(c.device_time_total for c in self.cpu_children)
        return self.self_device_time_total + inner

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes that results took on the host, with the events inside."""
        return self.self_cpu_memory_usage + sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def device_memory_usage(self) -> int:
        """Bytes that results took on the GPU, with the events inside."""
        return self.self_device_memory_usage + sum(c.device_memory_usage for c in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[c.id for c in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Times):
    """The sum of the events of one name (and one set of shapes, where they are kept apart)."""

    _TOTALS = (
        "cpu_time_total self_cpu_time_total device_time_total self_device_time_total "
        "cpu_memory_usage self_cpu_memory_usage device_memory_usage self_device_memory_usage"
    ).split()

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.input_shapes: Any = ""
        self.stack: list[str] = []
        self.is_user_annotation = False
        for name in self._TOTALS:
            setattr(self, name, 0)

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or another average."""
        if self.key is None:
            self.key, self.input_shapes, self.stack = other.key, other.input_shapes, other.stack
            self.is_user_annotation, self.use_device = other.is_user_annotation, other.use_device
        for name in self._TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.count += other.count
        self.use_device = self.use_device or other.use_device
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        averages: Any = self
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time={self.self_device_time_total_str} "
            f"cuda_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={averages.cpu_memory_usage} "
            f"cuda_memory_usage={averages.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events in the order in which they began, or averages."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        profile_memory: bool = False,
        use_device: str | None = None,
    ):
        super().__init__(events)
        self.profile_memory, self.use_device = profile_memory, use_device

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host in all events."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, **others: Any
    ) -> EventList:
        """The sums by name, and by shapes or the user's lines if asked for."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            lines = tuple(event.stack[:group_by_stack_n])
            found.setdefault((event.key, shapes, lines), FunctionEventAvg()).add(event)
        for (_, shapes, lines), average in found.items():
            average.input_shapes, average.stack = shapes, list(lines)
        return EventList(
            found.values(), profile_memory=self.profile_memory, use_device=self.use_device
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table, the largest by `sort_by` first. AttributeError for a figure that
        events do not have."""
        rows = list(self)
        if top_level_events_only:
            rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
        if sort_by is not None:
            known = sort_by.replace("cuda", "device")
            rows.sort(key=lambda event: getattr(event, known), reverse=True)
        return table_of(
            rows[:row_limit] if row_limit >= 0 else rows,
            _columns(self),
            total=f"Self CPU time total: {time_text(self.self_cpu_time_total)}\n"
            + self._device_total(),
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
        )

    def _device_total(self) -> str:
        if self.use_device is None:
            return ""
        total = sum(event.self_device_time_total for event in self)
        return f"Self {self.use_device.upper()} time total: {time_text(total)}\n"

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a trace that chrome://tracing and Perfetto show."""
        write_trace(path, self, {})

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can count."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each place in the user's program: where; op, and its microseconds.
        ValueError for another metric."""
        check(
            metric in self.supported_export_stacks_metrics(),
            ValueError,
            f"metric should be one of: {self.supported_export_stacks_metrics()}",
        )
        known = metric.replace("cuda", "device")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, known))
                if event.stack and value > 0:
                    lines = ";".join(reversed(event.stack)).replace(" ", "_")
                    file.write(f"{lines};{event.key} {value}\n")


def _columns(events: EventList) -> list[tuple[str, Callable[[Any], str]]]:
    """The columns of a table: names, and how a row fills them."""
    host = events.self_cpu_time_total or 1.0
    found: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda e: str(e.key)),
        ("Self CPU %", lambda e: f"{100 * e.self_cpu_time_total / host:.2f}%"),
        ("Self CPU", lambda e: e.self_cpu_time_total_str),
        ("CPU total %", lambda e: f"{100 * e.cpu_time_total / host:.2f}%"),
        ("CPU total", lambda e: e.cpu_time_total_str),
        ("CPU time avg", lambda e: e.cpu_time_str),
    ]
    if events.use_device is not None:
        title = events.use_device.upper()
        gpu = sum(e.self_device_time_total for e in events) or 1.0
        found += [
            (f"Self {title}", lambda e: e.self_device_time_total_str),
            (f"Self {title} %", lambda e: f"{100 * e.self_device_time_total / gpu:.2f}%"),
            (f"{title} total", lambda e: e.device_time_total_str),
            (f"{title} time avg", lambda e: e.device_time_str),
        ]
    if events.profile_memory:
        found += [
            ("CPU Mem", lambda e: memory_text(e.cpu_memory_usage)),
            ("Self CPU Mem", lambda e: memory_text(e.self_cpu_memory_usage)),
        ]
        if events.use_device is not None:
            found += [
                (f"{title} Mem", lambda e: memory_text(e.device_memory_usage)),
                (f"Self {title} Mem", lambda e: memory_text(e.self_device_memory_usage)),
            ]
    found.append(("# of Calls", lambda e: str(e.count)))
    if [e for e in events if e.input_shapes]:
        found.append(("Input Shapes", lambda e: str(e.input_shapes)))
    if [e for e in events if e.stack]:
        found.append(("Source Location", lambda e: e.stack[0] if e.stack else ""))
    return found


def events_of(entries: Sequence[Entry], origin: int) -> list[FunctionEvent]:
    """Entries as events in the order in which they began, each inside the block around it."""
    ordered = sorted(entries, key=lambda entry: (entry.start, -entry.end))
    events = [FunctionEvent(number, entry, origin) for number, entry in enumerate(ordered, 1)]
    open_blocks: dict[int, list[FunctionEvent]] = {}
    for event in events:
        around = open_blocks.setdefault(event.thread, [])
        while around and around[-1].time_range.end <= event.time_range.start:
            around.pop()
        if around:
            event.cpu_parent = around[-1]
            around[-1].cpu_children.append(event)
        around.append(event)
    return events
