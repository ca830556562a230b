"""Rounding of integers and of numbers too large for a float to hold."""

import pytest

import ember as torch

LARGE = [2**63 - 1, 2**53 + 1, -(2**53) - 1, -(2**63)]


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "fix"])
def test_integers_round_to_themselves(name):
    x = torch.tensor(LARGE)
    made = getattr(torch, name)(x)
    assert made.tolist() == LARGE and made.dtype is torch.int64
    assert made.data_ptr() != x.data_ptr()
    assert getattr(torch.cat([x] * 5000), name)()[-4:].tolist() == LARGE
    assert getattr(x.expand(2, 4), name)().tolist() == [LARGE, LARGE]
    assert getattr(x.clone(), name + "_")().tolist() == LARGE


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_small_integers_keep_their_dtype(dtype):
    made = torch.round(torch.tensor([0, 5, 127], dtype=dtype))
    assert made.dtype is dtype and made.tolist() == [0, 5, 127]
    assert torch.round(torch.empty(0, 3, dtype=dtype)).shape == (0, 3)


def test_halves_go_to_even_numbers():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.0**60])
    assert torch.round(x).tolist() == [0.0, 2.0, 2.0, 0.0, -2.0, 2.0**60]
    assert torch.signbit(torch.round(x)).tolist() == [False, False, False, True, True, False]
