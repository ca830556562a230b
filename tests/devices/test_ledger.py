"""The ledger: sums by line and direction, seen on made-up events and on real copies."""

import io
import json
import subprocess
import sys

import pytest

from ember.backends.base import CopyEvent, copy_observers
from ember.device import device
from ember.devices.ledger import Ledger

CPU, FIRST, SECOND = device("cpu"), device("cuda:0"), device("cuda:1")


def copy(source, target, nbytes, blocking=True, pinned=False):
    """Tell all observers of a copy, as the copy function does."""
    for observer in list(copy_observers):
        observer(CopyEvent(source, target, nbytes, 0.001, blocking, pinned))


def test_sums_by_line_and_direction():
    with Ledger() as record:
        for _ in range(3):
            copy(CPU, FIRST, 100)
        copy(FIRST, SECOND, 50, blocking=False)
        copy(SECOND, CPU, 7, pinned=True)
        copy(CPU, CPU, 1000)
    copy(CPU, FIRST, 10**6)  # after the block
    first, second, third = record.entries
    assert first[:3] == ("host to device", "cpu", "cuda:0")
    assert (first.count, first.bytes, first.blocking, first.pinned) == (3, 300, 3, 0)
    assert first.file.endswith("test_ledger.py")
    assert (second.direction, second.blocking) == ("device to device", 0)
    assert (third.direction, third.pinned) == ("device to host", 1)
    totals = record.totals()
    assert totals["all"]["count"] == 5 and totals["all"]["bytes"] == 357
    assert totals["host to device"]["bytes"] == 300
    assert totals["all"]["seconds"] == pytest.approx(0.005)


def test_two_lines_are_two_entries():
    with Ledger() as record:
        copy(CPU, FIRST, 1), copy(CPU, FIRST, 1)
        copy(CPU, FIRST, 1)
    lines = {entry.line: entry.count for entry in record.entries}
    # The test's own helper makes the copies, so its one line is the innermost outside Ember.
    assert list(lines.values()) == [3]


def test_ledgers_nest_and_leave():
    before = list(copy_observers)
    with Ledger() as outer:
        copy(CPU, FIRST, 1)
        with Ledger() as inner:
            copy(CPU, FIRST, 1)
    assert outer.totals()["all"]["count"] == 2 and inner.totals()["all"]["count"] == 1
    assert copy_observers == before


def test_leaves_when_the_block_fails():
    before = list(copy_observers)
    with pytest.raises(LookupError), Ledger():
        raise LookupError
    assert copy_observers == before


def test_json_and_table():
    with Ledger() as record:
        copy(CPU, FIRST, 3 * 2**20)
    found = json.loads(record.to_json())
    assert found["totals"]["host to device"]["bytes"] == 3 * 2**20
    assert found["entries"][0]["target"] == "cuda:0" and found["entries"][0]["line"] > 0
    text = io.StringIO()
    record.print(file=text)
    assert "3.0 MiB" in text.getvalue() and "cuda:0" in text.getvalue()


def test_long_tables_say_what_they_leave_out():
    record = Ledger()
    for line in range(30):
        record._sums["cpu", "cuda:0", "script.py", line, "to", ""] = [1, 10, 0.0, 1, 0, 0, 0]
    table = record.table(most=20)
    assert "... and 10 more lines" in list(table.columns[0].cells)


def test_real_copies_name_the_users_line():
    code = """
import ember as torch
x = torch.ones(256)
with torch.devices.ledger() as copies:
    y = x.cuda(0)
    z = y.to("cuda:1")
    w = z.cpu()
    s = z.sum().item()
print(copies.to_json())
"""
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", "--gpus", "2", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    by_line = {entry["line"]: entry for entry in found["entries"]}
    assert by_line[5]["direction"] == "host to device" and by_line[5]["bytes"] == 1024
    assert by_line[6]["direction"] == "device to device"
    assert by_line[7]["direction"] == "device to host"
    assert by_line[8]["bytes"] == 4
    assert {entry["file"] for entry in found["entries"]} == {"<string>"}
