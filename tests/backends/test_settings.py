"""The settings that programs reach as torch.backends: what they remember, and what they say."""

import pytest

import ember as torch

b = torch.backends


def test_switches_of_attention():
    for name in ("flash", "math", "mem_efficient", "cudnn"):
        enabled, enable = (
            getattr(b.cuda, f"{name}_sdp_enabled"),
            getattr(b.cuda, f"enable_{name}_sdp"),
        )
        assert enabled() is True
        enable(False)
        assert enabled() is False
        enable(True)
    with b.cuda.sdp_kernel(enable_flash=False, enable_math=False):
        assert not b.cuda.flash_sdp_enabled() and not b.cuda.math_sdp_enabled()
        assert b.cuda.mem_efficient_sdp_enabled()
    assert b.cuda.flash_sdp_enabled() and b.cuda.math_sdp_enabled()
    assert not b.cuda.fp16_bf16_reduction_math_sdp_allowed()
    for name in ("flash", "efficient", "cudnn"):
        assert getattr(b.cuda, f"can_use_{name}_attention")(None) is False
    assert not b.cuda.is_flash_attention_available() and not b.cuda.is_ck_sdpa_available()


def test_preferred_libraries():
    assert b.cuda.preferred_blas_library().name == "Cublas"
    assert b.cuda.preferred_linalg_library("default").name == "Default"
    for choose in (b.cuda.preferred_blas_library, b.cuda.preferred_linalg_library):
        with pytest.raises(RuntimeError, match="Choose from: default"):
            choose("magma")
    with pytest.raises(AttributeError, match="plans of cuFFT"):
        b.cuda.cufft_plan_cache


def test_cudnn():
    assert b.cudnn.set_flags() == (True, False, 10, False, True, "none", "auto")
    before = b.cudnn.set_flags(_benchmark=True)
    assert before[1] is False and b.cudnn.benchmark is True
    b.cudnn.set_flags(_benchmark=False)
    assert b.cudnn.conv.fp32_precision == b.cudnn.rnn.fp32_precision == "tf32"
    with pytest.raises(RuntimeError, match="fp32_precision is one of"):
        b.cudnn.conv.fp32_precision = "fp8"
    assert not b.cudnn.is_acceptable(torch.ones(1))


def test_libraries_that_are_not_used():
    assert b.mkldnn.set_flags() == (False, False, None, "none") and not b.mkldnn.is_acl_available()
    with b.mkldnn.flags(), b.mkldnn.verbose(b.mkldnn.VERBOSE_OFF), b.mkl.verbose(0):
        pass
    with pytest.raises(RuntimeError, match="cannot be turned on"):
        b.mkldnn.set_flags(True)
    for verbose in (b.mkl.verbose(b.mkl.VERBOSE_ON), b.mkldnn.verbose(1)):
        with pytest.raises(AssertionError, match="verbose mode"):
            verbose.__enter__()
    assert not b.opt_einsum.is_available() and b.opt_einsum.get_opt_einsum() is None
    assert b.opt_einsum.set_flags() == (False, None)
    with pytest.raises(ValueError, match="opt_einsum is not available"):
        b.opt_einsum.set_flags(True)
    with b.opt_einsum.flags():
        pass
    assert not b.mps.is_macos13_or_newer()
    for ask in (b.mps.get_name, b.mps.get_core_count):
        with pytest.raises(RuntimeError, match="Macs"):
            ask()


def test_capability_of_the_cpu():
    assert b.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
