"""Profiles: what they record, how it adds up, tables, traces, schedules."""

import gzip
import json

import pytest

import ember as torch
from ember.autograd import profiler as older
from ember.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def work():
    with record_function("model"):
        return (torch.ones(2, 3) @ torch.ones(3, 4)).relu().sum()


def profiled(**options):
    with profile(**options) as prof:
        work()
    return prof


def test_events_of_ops_and_blocks():
    events = profiled(record_shapes=True, profile_memory=True, with_stack=True).events()
    names = [event.name for event in events]
    assert names[0] == "model" and {"aten::relu", "aten::sum"} < set(names)
    block = events[0]
    assert block.is_user_annotation and block.cpu_children == events[1:]
    assert all(event.cpu_parent is block for event in events[1:])
    product = events[1]
    assert product.input_shapes == [[2, 3], [3, 4]] and product.cpu_memory_usage == 32
    assert product.stack[0].startswith(__file__)
    assert block.cpu_memory_usage == 32 + 32 + 4 and block.self_cpu_memory_usage == 0
    inner = sum(event.cpu_time_total for event in events[1:])
    assert block.cpu_time_total >= inner > 0
    assert block.self_cpu_time_total == pytest.approx(block.cpu_time_total - inner)


def test_what_is_not_asked_for_is_not_kept():
    event = profiled().events()[1]
    assert event.input_shapes == [] and event.stack == [] and event.cpu_memory_usage == 0


def test_averages():
    with profile(record_shapes=True) as prof:
        for size in (2, 2, 3):
            torch.ones(size).exp()
    (average,) = prof.key_averages()
    assert (average.key, average.count) == ("aten::exp", 3)
    assert average.cpu_time == pytest.approx(average.cpu_time_total / 3)
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert sorted((a.input_shapes, a.count) for a in by_shape) == [("[[2]]", 2), ("[[3]]", 1)]
    total = prof.key_averages().total_average()
    assert total.key == "Total" and total.count == 3


def test_backward_and_optimizers_are_in_it():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with profile() as prof:
        weight.exp().sum().backward()
        optimizer.step()
    names = {event.name for event in prof.events()}
    assert {"aten::exp", "aten::sum"} <= names and len(names) >= 4


def test_table():
    text = (
        profiled(record_shapes=True, profile_memory=True)
        .key_averages()
        .table(sort_by="cpu_time_total", row_limit=2)
    )
    lines = text.splitlines()
    titles = "Name Self CPU % Self CPU CPU total % CPU total CPU time avg CPU Mem Self CPU Mem"
    assert lines[1].split() == [*titles.split(), "#", "of", "Calls"]
    assert lines[0] == lines[2] == lines[-2] and set(lines[0]) == {"-", " "}
    assert lines[3].split()[0] == "model" and len(lines) == 7
    assert lines[-1].startswith("Self CPU time total: ")
    with pytest.raises(AttributeError):
        profiled().key_averages().table(sort_by="nothing")


def test_nothing_is_recorded_outside():
    prof = profiled()
    count = len(prof.events())
    work()
    assert len(prof.events()) == count
    assert torch.core.executor.current_executor() is None


def test_errors():
    with pytest.raises(AssertionError, match="not recorded anything yet"):
        profile().events()
    with profile(), pytest.raises(RuntimeError, match="Profiler is already enabled"):
        profile().start()
    with pytest.raises(NotImplementedError, match="memory_summary"):
        profiled().export_memory_timeline("x")
    with pytest.raises(AttributeError, match="nvprof"):
        older.load_nvprof
    with pytest.raises(NotImplementedError, match="emit_nvtx is not there"), older.emit_nvtx():
        pass
    with older.emit_nvtx(enabled=False), older.emit_itt(enabled=False):
        pass
    with pytest.raises(ValueError, match="metric should be one of"):
        profiled().export_stacks("x", "nothing")


def test_trace_files(tmp_path):
    prof = profiled(record_shapes=True)
    prof.add_metadata_json("distributed", '{"rank": 0}')
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    content = json.loads((tmp_path / "trace.json").read_text())
    found = [event for event in content["traceEvents"] if event["ph"] == "X"]
    assert content["distributed"] == {"rank": 0} and len(found) == len(prof.events())
    assert found[0]["name"] == "model" and found[0]["cat"] == "user_annotation"
    assert found[1]["cat"] == "cpu_op" and found[1]["args"]["Input Dims"] == [[2, 3], [3, 4]]
    profiled(with_stack=True).export_stacks(str(tmp_path / "stacks"))
    assert "test_profiler.py" in (tmp_path / "stacks").read_text()


def test_schedule():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    found = [plan(step).value for step in range(12)]
    assert found == [0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 0]
    assert schedule(wait=2, warmup=0, active=1, skip_first_wait=1)(0).value == 3
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=0, active=0)


def test_steps_and_handlers(tmp_path):
    seen = []

    def ready(prof):
        seen.append([event.name for event in prof.events()])
        tensorboard_trace_handler(str(tmp_path), "worker", use_gzip=True)(prof)

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=1, repeat=2),
        on_trace_ready=ready,
    ) as prof:
        for _ in range(7):
            torch.ones(2).exp()
            prof.step()
    assert seen == [["ProfilerStep#2", "aten::exp"], ["ProfilerStep#5", "aten::exp"]]
    assert prof.step_num == 7 and prof.current_action is ProfilerAction.NONE
    files = sorted(tmp_path.glob("worker.*.pt.trace.json.gz"))
    assert len(files) == 2 and "traceEvents" in json.loads(gzip.decompress(files[0].read_bytes()))


def test_record_function_decorates():
    @record_function("named")
    def function():
        return torch.ones(1).exp()

    with profile() as prof:
        function()
        function()
    assert [event.name for event in prof.events()].count("named") == 2


def test_older_face():
    with older.profile(record_shapes=True) as prof:
        work()
        assert repr(prof) == "<unfinished torch.autograd.profile>"
        with pytest.raises(RuntimeError, match="didn't finish"):
            prof.key_averages()
    assert prof.function_events[0].name == "model" and "aten::relu" in str(prof)
    assert prof.self_cpu_time_total > 0 and prof.total_average().count == len(prof.function_events)
    with older.profile(enabled=False) as prof:
        work()
    assert prof is None
