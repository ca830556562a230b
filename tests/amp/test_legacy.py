"""The old names of torch.cuda.amp and torch.cpu.amp."""

import pytest

import ember
from ember.amp import GradScaler, autocast, legacy
from ember.amp.autocast_mode import is_autocast_enabled


def test_cpu_autocast():
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.autocast\('cpu', args...\)`"):
        block = legacy.CpuAutocast()
    a = ember.ones(2, 2)
    with block:
        assert (a @ a).dtype == ember.bfloat16
    assert isinstance(block, autocast)


def test_cuda_names(gpus):
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.autocast\(args...\)` is deprecated"):
        block = legacy.CudaAutocast(dtype=ember.bfloat16)
    a = ember.ones(2, 2).cuda()
    with block:
        assert is_autocast_enabled() and (a @ a).dtype == ember.bfloat16
    with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"):
        scaler = legacy.CudaGradScaler(8.0)
    assert isinstance(scaler, GradScaler) and scaler.scale(a).device.type == "cuda"
    assert scaler.get_scale() == 8.0


def test_cpu_scaler_and_decorators():
    with pytest.warns(FutureWarning, match="torch.cpu.amp.GradScaler"):
        assert legacy.CpuGradScaler(init_scale=2.0).scale(ember.ones(1)).item() == 2.0
    with pytest.warns(FutureWarning, match="torch.cuda.amp.custom_fwd"):
        assert callable(legacy.custom_fwd(lambda ctx: 1))
    with pytest.warns(FutureWarning, match="torch.cuda.amp.custom_bwd"):
        assert callable(legacy.custom_bwd(lambda ctx: 1))


def test_queries():
    with pytest.warns(DeprecationWarning, match=r"use torch.is_autocast_enabled\('cpu'\) instead"):
        assert legacy.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning, match="torch.get_autocast_cpu_dtype"):
        assert legacy.get_autocast_cpu_dtype() == ember.bfloat16
    with pytest.warns(DeprecationWarning, match="torch.get_autocast_gpu_dtype"):
        assert legacy.get_autocast_gpu_dtype() == ember.float16
