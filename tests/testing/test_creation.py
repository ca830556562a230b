"""make_tensor: PyTorch's numbers for the same seed (recorded), bounds, layouts."""

import pytest

import ember as torch
from ember.testing import make_tensor


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (torch.float32, [-0.0674, 4.8280, -7.4074, -6.6235, -3.4664]),
        (torch.int64, [6, -5, -9, -9, 2]),
        (torch.bool, [False, True, True, False, True]),
        (torch.float64, [8.4610, 3.7408, -0.7311, 7.5735, 2.6104]),
        (torch.uint8, [4, 9, 3, 0, 3]),
        (torch.complex64, [-0.0674 + 4.8280j, -7.4074 - 6.6235j, -3.4664 + 2.4134j]),
    ],
)
def test_numbers(dtype, values):
    torch.manual_seed(0)
    made = make_tensor((5,), dtype=dtype, device="cpu")
    assert made.dtype is dtype
    assert made.tolist()[: len(values)] == pytest.approx(values, abs=1e-4)


def test_layouts_and_zeros():
    made = make_tensor(3, 4, dtype=torch.float32, device="cpu", noncontiguous=True)
    assert made.shape == (3, 4) and not made.is_contiguous()
    kept = make_tensor(
        (2, 3, 4, 5), dtype=torch.float32, device="cpu", memory_format=torch.channels_last
    )
    assert kept.stride() == (60, 1, 15, 3)
    ints = make_tensor((50,), dtype=torch.int8, device="cpu", low=0, high=2, exclude_zero=True)
    assert ints.tolist() == [1] * 50
    assert make_tensor((2,), dtype=torch.float32, device="cpu", requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        (torch.float32, {"low": 2, "high": 1}, "`low` must be less than `high`, but got 2 >= 1"),
        (torch.int32, {"requires_grad": True}, "not supported for boolean and integral dtypes"),
        (torch.float32, {"low": float("nan")}, "`low` and `high` cannot be NaN"),
        (torch.int8, {"low": 300, "high": 400}, r"is \[300, 400\), but torch.int8 only supports"),
        (
            torch.float32,
            {"noncontiguous": True, "memory_format": torch.contiguous_format},
            "mutually exclusive",
        ),
    ],
)
def test_what_cannot_be_made(dtype, options, message):
    with pytest.raises(ValueError, match=message):
        make_tensor((2,), dtype=dtype, device="cpu", **options)


def test_equal_bounds_are_deprecated():
    with pytest.warns(FutureWarning, match="low==high"):
        assert make_tensor((2,), dtype=torch.float32, device="cpu", low=1, high=1).tolist() == [
            1,
            1,
        ]
