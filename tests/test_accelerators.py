"""Modules of accelerators that Ember has no backend for, and the one name for those it has."""

import pytest

import ember as torch


@pytest.mark.parametrize("name", ["xpu", "mps", "mtia", "accelerator"])
def test_there_is_none(name):
    module = getattr(torch, name)
    assert module.is_available() is False and module.device_count() == 0


def test_questions_are_answered():
    assert torch.xpu.memory_allocated() == 0 and torch.xpu.memory_stats() == {}
    assert torch.xpu.empty_cache() is None and torch.xpu.is_bf16_supported() is False
    torch.xpu.manual_seed_all(0)
    torch.mps.manual_seed(0)
    assert torch.accelerator.current_accelerator() is None
    assert torch.mtia.is_initialized() is False


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: torch.xpu.current_device(), AssertionError, "not compiled with XPU enabled"),
        (lambda: torch.xpu.get_device_name(0), AssertionError, "not compiled with XPU enabled"),
        (
            lambda: torch.mps.empty_cache(),
            RuntimeError,
            r"Cannot execute emptyCache\(\) without MPS",
        ),
        (lambda: torch.mtia.synchronize(), RuntimeError, "without MTIA backend"),
        (lambda: torch.accelerator.synchronize(), RuntimeError, "when none is available"),
        (lambda: torch.accelerator.memory_allocated(), RuntimeError, "when none is available"),
        (lambda: torch.get_device_module("foo"), RuntimeError, "Expected one of cpu, cuda"),
    ],
)
def test_the_rest_says_so(run, error, message):
    with pytest.raises(error, match=message):
        run()


def test_modules_of_devices():
    assert torch.get_device_module() is torch.cpu
    assert torch.get_device_module("cuda:0") is torch.cuda
    with torch.accelerator.device_index(None):
        pass


def test_below_the_surface():
    assert torch._C._get_tracing_state() is None
    assert torch._C._are_functorch_transforms_active() is False
    assert torch._C._get_accelerator() == torch.device("cpu")
    before = torch._C._jit_set_profiling_executor(False)
    assert torch._C._jit_set_profiling_executor(before) is False
    assert torch._C.TensorBase is torch.Tensor and torch.torch is torch
    parse = torch._C._nn._parse_to
    assert parse("cpu") == (torch.device("cpu"), None, False, None)
    assert parse(torch.float16, True) == (None, torch.float16, True, None)
    assert parse(torch.ones(1)) == (torch.device("cpu"), torch.float32, False, None)
    assert torch._C._nn.gelu is torch.nn.functional.gelu
    with pytest.raises(AttributeError, match="module 'torch._C' has no attribute 'Graph'"):
        torch._C.Graph


def test_names_for_annotations():
    assert torch.types.Number == int | float | bool
    assert torch.types._size and torch.types.Device and torch.types._TensorOrTensors
    assert isinstance(1, torch.types.IntLikeType)
