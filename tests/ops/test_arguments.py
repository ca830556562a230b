"""Arguments of the wrong type, and Python's types where dtypes are wanted; as PyTorch has it."""

import pytest

import ember as torch

a = torch.ones(2)


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda: a.to(int), torch.int64),
        (lambda: a.to("cpu", float), torch.float64),
        (lambda: a.to(dtype=bool), torch.bool),
        (lambda: a.sum(dtype=float), torch.float64),
        (lambda: a.mean(dtype=float), torch.float64),
        (lambda: a.softmax(0, dtype=float), torch.float64),
        (lambda: a.cumsum(0, dtype=float), torch.float64),
        (lambda: torch.tensor([1], dtype=float), torch.float64),
        (lambda: torch.as_tensor([1], int), torch.int64),
        (lambda: torch.zeros(2, dtype=int), torch.int64),
        (lambda: torch.ones_like(a, dtype=bool), torch.bool),
        (lambda: torch.full((2,), 1, dtype=bool), torch.bool),
        (lambda: torch.empty(2, dtype=complex), torch.complex128),
        (lambda: torch.arange(3, dtype=float), torch.float64),
        (lambda: torch.rand(2, dtype=float), torch.float64),
        (lambda: a.new_zeros(2, dtype=int), torch.int64),
        (lambda: torch.eye(2, dtype=int), torch.int64),
    ],
)
def test_pythons_types_are_dtypes(made, dtype):
    assert made().dtype is dtype


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.tensor([1], dtype="float32"),
        lambda: torch.zeros(2, dtype="float32"),
        lambda: a.to(dtype="float32"),
        lambda: a.sum(dtype=str),
        lambda: torch.ones(2, dtype=list),
    ],
)
def test_what_is_no_dtype(wrong):
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not (str|type)"):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.full((2,), "x"),
        lambda: torch.full((2,), None),
        lambda: a.fill_("x"),
        lambda: a.fill_(None),
        lambda: a.masked_fill(a > 0, "x"),
        lambda: torch.where(a > 0, a, "x"),
        lambda: torch.add(a, 1, alpha="x"),
        lambda: a.mul("x"),
        lambda: a.clamp("x"),
        lambda: torch.lerp(a, a, "x"),
        lambda: a.to(torch.float32, torch.float64),
    ],
)
def test_what_is_no_number(wrong):
    with pytest.raises(TypeError):
        wrong()
    assert a.tolist() == [1.0, 1.0]


def test_limits_say_how_many_digits_are_sure():
    digits = [(torch.float16, 1e-3), (torch.bfloat16, 1e-2), (float, 1e-15), (torch.float32, 1e-6)]
    for dtype, resolution in digits:
        assert torch.finfo(dtype).resolution == pytest.approx(resolution)
    assert torch.finfo(torch.float8_e5m2).resolution == 1


def test_numbers_beside_sequences():
    with pytest.raises(TypeError, match="'list' object cannot be interpreted as an integer"):
        torch.tensor([1, [2]])
    with pytest.raises(TypeError, match="not a sequence"):
        torch.tensor([[1], 2])
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1 .got 1"):
        torch.tensor([[1, 2], [3]])


def test_special_methods_of_what_is_no_tensor():
    with pytest.raises(AttributeError, match="'int' object has no attribute 'reciprocal'"):
        torch.Tensor.__rdiv__(2, a)
    assert torch.Tensor.__rdiv__(torch.tensor([4.0]), 2).tolist() == [0.5]
