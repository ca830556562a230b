"""Ranges and spaces whose values hang on the last bit, as PyTorch 2.13 gives them."""

import pytest

import ember as torch


@pytest.mark.parametrize(
    ("start", "end", "steps", "place", "value"),
    [(4.3, -3, 50, 21, 1), (0, 7, 50, 28, 4), (-45, 35, 87, 43, -4), (-33, 23, 81, 40, -4)],
)
def test_whole_numbers_of_linspace_are_rounded_once(start, end, steps, place, value):
    found = torch.linspace(start, end, steps, dtype=torch.int64)
    assert int(found[place]) == value


def test_linspace_ends():
    assert torch.linspace(3, 10, 5, dtype=torch.int64).tolist() == [3, 4, 6, 8, 10]
    assert torch.linspace(5, 5, 1, dtype=torch.int64).tolist() == [5]
    assert torch.linspace(5, 9, 0, dtype=torch.int64).tolist() == []
