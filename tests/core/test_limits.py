"""`torch.finfo` and `torch.iinfo`: what they take and refuse."""

import pytest

import ember as torch


def test_python_types_of_numbers():
    assert torch.iinfo(int).max == 9223372036854775807 and torch.iinfo(int).dtype == "int64"
    assert torch.finfo(float).bits == 64 and torch.finfo().dtype == "float32"


@pytest.mark.parametrize("function", ["iinfo", "finfo"])
@pytest.mark.parametrize("value", [torch.ones(1), "int8", None, 3])
def test_what_is_no_dtype_is_a_type_error(function, value):
    kind = type(value).__name__
    with pytest.raises(
        TypeError,
        match=rf"{function}\(\): argument 'type' \(position 1\) must be torch.dtype, not {kind}",
    ):
        getattr(torch, function)(value)


def test_dtypes_of_the_other_kind():
    with pytest.raises(TypeError, match="requires an integer input type. Use torch.finfo"):
        torch.iinfo(torch.float32)
    with pytest.raises(TypeError, match="requires a floating point input type. Use torch.iinfo"):
        torch.finfo(torch.int32)
    with pytest.raises(TypeError, match="torch.bool is not supported by torch.iinfo"):
        torch.iinfo(torch.bool)
