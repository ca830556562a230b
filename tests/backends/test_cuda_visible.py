"""GPUs are counted without starting CUDA, by the rules of CUDA_VISIBLE_DEVICES."""

import os
from types import SimpleNamespace

import pytest

from ember.backends.cuda import visible
from ember.backends.cuda.backend import CudaBackend
from ember.backends.cuda.driver import Driver

UUIDS = ["GPU-aa11-0", "GPU-aa22-1", "GPU-bb33-2"]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with three GPUs, as its files show them."""
    for folder in ("dev", "proc"):
        (tmp_path / folder).mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "null", "nvidia0", "nvidia1", "nvidia2"):
        (tmp_path / "dev" / name).touch()
    for i, uuid in enumerate(UUIDS):
        (tmp_path / "proc" / f"0000:0{i}:00.0").mkdir()
        text = f"Model: \t\t NVIDIA\nGPU UUID: \t {uuid}\n"
        (tmp_path / "proc" / f"0000:0{i}:00.0" / "information").write_text(text)
    monkeypatch.setattr(visible, "DEVICES", str(tmp_path / "dev"))
    monkeypatch.setattr(visible, "DETAILS", str(tmp_path / "proc"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ("0", 1), ("2,0", 2), ("0,1,2", 3), ("", 0), ("-1", 0), ("0,-1,2", 1), ("1,9,0", 1),
        ("0,0", 0), ("1, 2", 2), ("none", 0), ("GPU-aa11", 1), ("GPU-aa22-1,GPU-bb", 2),
        ("GPU-aa", 0), ("GPU-cc", 0), ("GPU-bb,GPU-bb33", 0), ("MIG-5", None),
    ],
)  # fmt: skip
def test_visible_devices(machine, monkeypatch, chosen, count):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert visible.visible_count() == count


def test_all_without_a_choice(machine):
    assert visible.visible_count() == 3


def test_only_the_driver_tells_without_its_files(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa11")
    monkeypatch.setattr(visible, "DETAILS", str(machine / "nothing"))
    assert visible.visible_count() is None
    monkeypatch.setattr(visible, "DEVICES", str(machine / "nothing"))
    assert visible.visible_count() is None


def _bindings(called):
    def answer(name, *found):
        return lambda *arguments: called.append(name) or (0, *found)

    capacities = SimpleNamespace(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16)
    return SimpleNamespace(
        cuInit=answer("cuInit"),
        cuDeviceGetCount=answer("cuDeviceGetCount", 3),
        cuDeviceGet=answer("cuDeviceGet", 7),
        cuDeviceGetName=answer("cuDeviceGetName", b"GPU\0"),
        cuDeviceTotalMem=answer("cuDeviceTotalMem", 1 << 30),
        cuDeviceGetAttribute=answer("cuDeviceGetAttribute", 4),
        CUdevice_attribute=capacities,
    )


def _in_child(function):
    """What a forked child says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(function())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as said:
        return said.read()


def test_a_child_may_use_gpus_that_were_only_counted(machine):
    called = []
    backend = CudaBackend(Driver(_bindings(called)))
    assert backend.device_count() == 3 and called == []
    assert _in_child(lambda: backend.driver.name(0)) == "GPU"
    assert called == []
    assert backend.driver.name(0) == "GPU" and called[0] == "cuInit"
    said = _in_child(lambda: backend.driver.name(0))
    assert said.startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")
    assert _in_child(backend.device_count) == "3"
    assert backend.memory(2).capacity == 1 << 30 and backend.kernels(1).processors == 4
