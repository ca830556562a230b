"""Switches of the whole process."""

import pytest

import ember as torch


def test_threads_are_counted_and_set():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
        a = torch.rand(32, 32)
        assert torch.allclose(a @ a, (a.unsqueeze(2) * a.unsqueeze(0)).sum(1), atol=1e-5)
    finally:
        torch.set_num_threads(before)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("value", "error"), [(0, RuntimeError), (-2, RuntimeError), (1.5, TypeError)]
)
def test_threads_must_be_a_positive_int(value, error):
    with pytest.raises(error):
        torch.set_num_threads(value)


def test_determinism_is_one_switch_under_two_names():
    try:
        torch.use_deterministic_algorithms(True)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_deterministic_debug_mode() == 2
        torch.set_deterministic_debug_mode("warn")
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(RuntimeError, match="expected 0, 1, 2"):
            torch.set_deterministic_debug_mode("loud")
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.get_deterministic_debug_mode() == 0


def test_precision_of_products():
    assert torch.get_float32_matmul_precision() == "highest"
    try:
        torch.set_float32_matmul_precision("high")
        assert torch.get_float32_matmul_precision() == "high"
        with pytest.raises(RuntimeError, match="not one of"):
            torch.set_float32_matmul_precision("low")
    finally:
        torch.set_float32_matmul_precision("highest")


def test_typename():
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename(3) == "int"


def test_what_ember_does_not_do_it_says():
    assert torch.get_num_interop_threads() == 1
    torch.set_num_interop_threads(4)
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        torch.set_num_interop_threads(0)
    assert torch.set_flush_denormal(False) and not torch.set_flush_denormal(True)
    assert torch.tensor(1e-40).item() > 0
    with pytest.raises(AttributeError, match="quantize_per_tensor' in Ember.*is left out"):
        torch.quantize_per_tensor
    for make in (torch.zeros, torch.ones, lambda *n, dtype: torch.ones(*n).to(dtype)):
        with pytest.raises(NotImplementedError, match=r"no tensors of torch.quint8 in Ember"):
            make(2, dtype=torch.quint8)
    assert not {"annotations", "importlib", "TYPE_CHECKING"} & set(dir(torch))
