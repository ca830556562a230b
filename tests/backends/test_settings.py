"""`torch.backends.*`: settings that keep their types and come back after a block."""

import pytest

import ember as torch


def test_cudnn_settings_are_checked_and_kept():
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    with pytest.raises(RuntimeError, match="set_benchmark_cudnn expects a bool, but got str"):
        cudnn.benchmark = "yes"
    with pytest.raises(RuntimeError, match="expects a int, but got bool"):
        cudnn.benchmark_limit = True
    assert cudnn.benchmark is False


def test_cudnn_flags_come_back():
    cudnn = torch.backends.cudnn
    with pytest.raises(LookupError), cudnn.flags(enabled=True, deterministic=True):
        assert cudnn.deterministic and not cudnn.benchmark
        raise LookupError
    assert not cudnn.deterministic
    with pytest.raises(RuntimeError), cudnn.flags(enabled=False, benchmark=1):
        pass
    assert cudnn.enabled and cudnn.benchmark is False


def test_what_is_not_there_says_so():
    assert not torch.backends.cudnn.is_available() and torch.backends.cudnn.version() is None
    assert not torch.backends.mps.is_available() and not torch.backends.mps.is_built()
    assert not torch.backends.mkldnn.is_available()
    assert not torch.backends.mps.is_macos_or_newer(13, 0)


def test_precision_of_products_is_one_switch_under_two_names():
    matmul = torch.backends.cuda.matmul
    try:
        matmul.allow_tf32 = True
        assert torch.get_float32_matmul_precision() == "high"
        torch.set_float32_matmul_precision("highest")
        assert matmul.allow_tf32 is False
        with pytest.raises(RuntimeError, match="expects a bool, but got str"):
            matmul.allow_tf32 = "yes"
        with pytest.raises(AttributeError, match="Unknown attribute allow_tf33"):
            matmul.allow_tf33 = True
    finally:
        matmul.allow_tf32 = False
    assert not torch.backends.mkl.is_available() and not torch.backends.openmp.is_available()
