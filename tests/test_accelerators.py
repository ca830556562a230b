"""Modules of accelerators that Ember has no backend for, and the one name for those it has."""

import importlib
import pickle

import pytest

import ember as torch

pytestmark = pytest.mark.usefixtures("no_gpus")


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
    with pytest.raises(AttributeError, match="module 'torch._C' has no attribute 'Nothing'"):
        torch._C.Nothing


def test_names_for_annotations():
    assert torch.types.Number == int | float | bool
    assert torch.types._size and torch.types.Device and torch.types._TensorOrTensors
    assert isinstance(1, torch.types.IntLikeType)


def test_tensors_as_text():
    text = importlib.import_module("ember._tensor_str")
    x = torch.tensor([1.23456, 2.0])
    assert text._tensor_str(x, 0) == "[1.2346, 2.0000]" and text._str(x) == repr(x)
    with text.printoptions(precision=2):
        assert text.PRINT_OPTS.precision == 2 and repr(x) == "tensor([1.23, 2.00])"
    assert text.PRINT_OPTS.edgeitems == 3


def test_older_names():
    assert torch.legacy_contiguous_format is torch.contiguous_format
    assert torch._cast_Long(torch.tensor([1.5])).tolist() == [1]
    assert torch.version.xpu is None
    assert torch._C._functorch.is_batchedtensor(torch.ones(1)) is False
    x = torch.arange(6.0)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.resize(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    warned = pytest.warns(UserWarning, match="non-inplace resize")
    with warned, pytest.raises(RuntimeError, match="requested resize to 2x2"):
        x.resize(2, 2)
    with pytest.warns(UserWarning, match="non-inplace resize_as"):
        assert x.resize_as(torch.ones(3, 2)).shape == (3, 2)


def test_modules_of_kinds_of_devices():
    from ember import _utils

    assert _utils._get_device_module("cpu") is torch.cpu
    assert _utils._get_device_module("cuda") is torch.cuda
    expected = "cuda" if torch.cuda.is_available() else None
    assert _utils._get_available_device_type() == expected
    with pytest.raises(RuntimeError, match="'zzz' does not have a corresponding module"):
        _utils._get_device_module("zzz")


@pytest.mark.parametrize("name", ["mps", "mps:0", "xpu:1", "hpu", "vulkan", "xla", "privateuseone"])
def test_devices_of_other_vendors_have_names(name):
    place = torch.device(name)
    assert str(place) == name and place == pickle.loads(pickle.dumps(place))
    kind, _, index = name.partition(":")
    assert (place.type, place.index) == (kind, int(index) if index else None)


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("mps", NotImplementedError, "'MPS' backend: Ember runs on cpu, cuda"),
        ("vulkan", NotImplementedError, "not linked with support for vulkan devices"),
        ("xpu", AssertionError, "Torch not compiled with XPU enabled"),
        ("mtia", AssertionError, "Torch not compiled with MTIA enabled"),
    ],
)
def test_no_tensor_lies_on_devices_of_other_vendors(kind, error, text):
    layer = torch.nn.Linear(2, 2)
    for make in (
        lambda: torch.zeros(2, device=kind),
        lambda: torch.tensor([1.0], device=torch.device(kind)),
        lambda: torch.ones(2).to(kind),
        lambda: torch.empty_like(torch.ones(2), device=kind),
        lambda: torch.rand(2, device=kind),
        lambda: layer.to(kind),
        lambda: torch.Generator(kind),
    ):
        with pytest.raises(error, match=text):
            make()
    assert layer.weight.device.type == "cpu"
    with torch.device(kind), pytest.raises(error, match=text):
        torch.ones(2)
    assert torch.ones(2).device.type == "cpu"
