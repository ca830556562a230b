"""A profile as a trace file: the JSON that chrome://tracing, Perfetto and TensorBoard read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any


def write_trace(path: str, events: Iterable[Any], metadata: dict[str, Any]) -> None:
    """Write events to a file, compressed if its name ends with .gz."""
    process = os.getpid()
    found = [
        {
            "ph": "X",
            "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
            "name": event.name,
            "pid": process,
            "tid": event.thread,
            "ts": event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": _arguments(event),
        }
        for event in events
    ]
    named = {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0}
    content = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": [{**named, "args": {"name": "python"}}, *found],
        "traceName": str(path),
    }
    if str(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(content, file)
    else:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


def _arguments(event: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"External id": event.id}
    if event.input_shapes:
        found["Input Dims"] = event.input_shapes
    if event.stack:
        found["Call stack"] = event.stack[0]
    if event.use_device is not None:
        found["Device time (us)"] = event.self_device_time_total
    return found
