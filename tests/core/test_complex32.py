"""complex32: stored, converted, added and multiplied, as PyTorch does on the CPU; no functions."""

import pytest

import ember as torch

X = [1 + 2j, 3]


def half(values=X):
    return torch.tensor(values, dtype=torch.complex32)


def test_name_size_and_alias():
    assert torch.chalf is torch.complex32
    assert (torch.complex32.itemsize, torch.complex32.is_complex) == (4, True)
    assert repr(half()) == "tensor([1.+2.j, 3.+0.j], dtype=torch.complex32)"
    assert half().tolist() == [1 + 2j, 3 + 0j]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("bool", "complex32"), ("int64", "complex32"), ("float16", "complex32"),
        ("bfloat16", "complex64"), ("float32", "complex64"), ("float64", "complex128"),
        ("complex64", "complex64"), ("complex128", "complex128"),
    ],
)  # fmt: skip
def test_promotion(other, found):
    assert torch.promote_types(torch.complex32, getattr(torch, other)) is getattr(torch, found)
    assert torch.promote_types(getattr(torch, other), torch.complex32) is getattr(torch, found)


def test_arithmetic_rounds_to_halves():
    assert (half() * half()).tolist() == [-3 + 4j, 9 + 0j]
    assert (half() + half()).dtype is torch.complex32
    assert half().abs().dtype is torch.float16
    assert half().abs().tolist() == [2.236328125, 3.0]
    assert (torch.ones(1, dtype=torch.float16) * 1j).dtype is torch.complex32


def test_conversions_and_parts():
    assert half().to(torch.complex64).tolist() == X
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert half().to(torch.float32).tolist() == [1.0, 3.0]
    assert half().real.dtype is torch.float16
    assert half().imag.tolist() == [2.0, 0.0]
    halves = torch.tensor([[1.0, 2.0]], dtype=torch.float16)
    assert torch.view_as_complex(halves).tolist() == [1 + 2j]
    assert torch.complex(halves[0], halves[0]).dtype is torch.complex32


def test_random_numbers_are_drawn_as_halves():
    drawn = torch.rand(100, dtype=torch.complex32)
    parts = torch.view_as_real(drawn).float()
    assert 0 <= float(parts.min()) and float(parts.max()) < 1
    assert len(set(drawn.tolist())) > 50


@pytest.mark.parametrize("name", ["exp", "sin", "sum", "prod", "angle"])
def test_functions_are_not_there(name):
    with pytest.raises(NotImplementedError, match="ComplexHalf"):
        getattr(torch, name)(half())
