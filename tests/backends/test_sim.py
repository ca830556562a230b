"""Which simulated GPUs there are: the specification, CUDA_VISIBLE_DEVICES, the simulated clock."""

import os
import subprocess
import sys

import pytest

from ember.backends.sim import backend as sim
from ember.backends.sim.specification import parse
from ember.device import device
from ember.errors import OutOfMemoryError

GIB = 1 << 30
UUID = "e3be5000-5151-0000-0000-00000000000"


@pytest.mark.parametrize(
    ("text", "count", "memory", "name"),
    [
        ("4", 4, 16 * GIB, "Ember Simulated GPU"),
        ("2x16GiB", 2, 16 * GIB, "Ember Simulated GPU"),
        ("1x512MiB", 1, 512 << 20, "Ember Simulated GPU"),
        ("1x1.5gib", 1, 3 * GIB // 2, "Ember Simulated GPU"),
        ("1x1000", 1, 1000, "Ember Simulated GPU"),
        ("1x2GB", 1, 2 * 10**9, "Ember Simulated GPU"),
        ("8:H100", 8, 80 * GIB, "NVIDIA H100 80GB HBM3"),
        ("8x40GiB:h100", 8, 40 * GIB, "NVIDIA H100 80GB HBM3"),
        (" 2x4GiB ", 2, 4 * GIB, "Ember Simulated GPU"),
        ("2:Toaster", 2, 16 * GIB, "Toaster"),
        ("0", 0, 16 * GIB, "Ember Simulated GPU"),
    ],
)
def test_specifications(text, count, memory, name):
    found, model = parse(text)
    assert (found, model.memory, model.name) == (count, memory, name)


@pytest.mark.parametrize(
    "text",
    [
        "", "two", "2y16GiB", "x16GiB", "2x", "2xGiB", "2x16GBB", "2x16 furlongs", "-1", "2x-1GiB",
        "1.5", "2x0", "2x16GiB:", "2xinf", "2xnanGiB", "²", "2x1GiBx2",
    ],
)  # fmt: skip
def test_specifications_that_are_none_show_the_grammar(text):
    with pytest.raises(ValueError, match="simulated GPUs") as caught:
        parse(text)
    assert "16GiB" in str(caught.value) or "positive" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        ("3, 1", [3, 1]),
        ("-1", []),
        ("1,-1,2", [1]),
        ("0,9,1", [0]),
        ("0,0", []),
        ("1,2,1", []),
        ("no", []),
        ("1,no,2", [1]),
        (UUID + "2", [2]),
        ("GPU-" + UUID + "3,0", [3, 0]),
        ("GPU-" + UUID + "3,3", []),
        ("GPU-e3be", []),  # the start of four UUIDs
        ("GPU-", []),
    ],
)
def test_visible_devices(monkeypatch, text, expected):
    if text is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert sim.visible(4) == expected


def test_a_misspelt_variable_is_noticed(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICE", "1")
    with pytest.warns(UserWarning, match=r"the variable is CUDA_VISIBLE_DEVICES \(with an S\)"):
        assert sim.visible(2) == [0, 1]


def run(code, **environment):
    plain = {
        k: v
        for k, v in os.environ.items()
        if k not in ("CUDA_VISIBLE_DEVICES", "EMBER_SIMULATE_GPUS")
    }
    return subprocess.run(
        [sys.executable, "-c", code], env={**plain, **environment}, capture_output=True, text=True
    )


def test_a_program_sees_the_gpus_that_the_environment_names():
    code = """
import ember
print(ember.cuda.device_count(), ember.cuda.is_available(), ember.cuda.is_initialized())
print(ember.cuda.get_device_properties(0).uuid)
ember.ones(1, device="cuda:1")
try:
    ember.ones(1, device="cuda:2")
except RuntimeError as error:
    print(error)
"""
    done = run(code, EMBER_SIMULATE_GPUS="4x1GiB", CUDA_VISIBLE_DEVICES="3,1")
    lines = done.stdout.splitlines()
    assert lines[0] == "2 True True" and lines[1] == UUID + "3", done.stderr
    assert "invalid device ordinal" in lines[2] and "there are 2" in lines[2]


def test_a_program_without_gpus():
    code = """
import ember
print(ember.cuda.device_count(), ember.cuda.is_available(), ember.cuda.memory_allocated())
for ask in (lambda: ember.ones(1).cuda(), lambda: ember.ones(1, device="cuda"),
            lambda: ember.cuda.current_device(), lambda: ember.nn.Linear(1, 1).cuda()):
    try:
        ask()
    except AssertionError as error:
        print("--gpus" in str(error) and "Torch not compiled with CUDA enabled" in str(error))
"""
    done = run(code)
    assert done.stdout.splitlines() == ["0 False 0", *["True"] * 4], done.stderr


def test_a_bad_specification_in_the_environment_stops_the_program():
    done = run("import ember; ember.cuda.is_available()", EMBER_SIMULATE_GPUS="many")
    assert done.returncode == 1 and "is not of the form N[xMEMORY][:NAME]" in done.stderr


def memory(nbytes):
    _, model = parse("1")
    return sim.SimMemory(device("cuda:0"), model._replace(memory=nbytes))


def test_a_memory_counts_blocks():
    made = memory(4096)
    assert made.allocate(1).nbytes == 1 and made.allocated == 512
    made.allocate(512), made.allocate(513)
    assert (made.allocated, made.allocations, made.peak_allocated) == (2048, 3, 2048)
    made.give_back(513)
    assert (made.allocated, made.frees, made.peak_allocated) == (1024, 1, 2048)
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate 3.00 KiB.*3.00 KiB is free"):
        made.allocate(3073)
    assert (made.allocated, made.out_of_memories) == (1024, 1)
    made.allocate(3072)
    assert made.allocated == 4096
    made.allocate(0)
    with pytest.raises(OutOfMemoryError):
        made.allocate(1)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(5, "5 bytes"), (2048, "2.00 KiB"), (3 << 19, "1.50 MiB"), (5 << 30, "5.00 GiB")],
)
def test_bytes_in_messages(nbytes, text):
    assert sim.readable(nbytes) == text


def test_the_clock_follows_bytes_and_operations():
    _, model = parse("1:A100")
    queue = sim.SimQueue(model)
    queue.advance(2039e9, 0)
    assert queue.record() == pytest.approx(1, rel=1e-5)
    queue.advance(0, 19.5e12)
    assert queue.record() == pytest.approx(2, rel=1e-5) and queue.launches == 2
