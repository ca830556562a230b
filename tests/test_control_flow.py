"""Branches, loops and scans as functions; the values are PyTorch's."""

import pytest

import ember as torch
from ember._higher_order_ops import associative_scan, map, scan


def test_branches():
    x = torch.ones(2, requires_grad=True)
    result = torch.cond(x.sum() > 0, lambda a: a * 3, lambda a: a - 1, (x,))
    result.sum().backward()
    assert result.tolist() == [3.0, 3.0] and x.grad.tolist() == [3.0, 3.0]
    assert torch.cond(False, lambda: 1, lambda: 2) == 2
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        torch.cond(x, abs, abs, (x,))
    with pytest.raises(RuntimeError, match="both branches to be callable"):
        torch.cond(True, 3, abs)


def test_loops():
    i, x = torch.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2))
    )
    assert i.item() == 3 and x.tolist() == [8.0, 8.0]
    with pytest.raises(RuntimeError, match="body_fn should return"):
        torch.while_loop(lambda i: i < 3, lambda i: i + 1, (0,))


def test_associative_scans():
    x = torch.arange(1.0, 7).view(2, 3)
    assert associative_scan(torch.add, x, 1).tolist() == [[1, 3, 6], [4, 9, 15]]
    sums, products = associative_scan(
        lambda a, b: (a[0] + b[0], a[1] * b[1]), (x, x), 1, reverse=True, combine_mode="generic"
    )
    assert sums.tolist() == [[6, 5, 3], [15, 11, 6]]
    assert products.tolist() == [[6, 6, 3], [120, 30, 6]]
    with pytest.raises(IndexError, match="Dimension out of range"):
        associative_scan(torch.add, x, 7)
    with pytest.raises(ValueError, match="Combine_mode must either"):
        associative_scan(torch.add, x, 0, combine_mode="fast")


def test_scans_and_maps():
    carry, ys = scan(lambda c, x: (c + x, c * x), torch.tensor(1), torch.tensor([1, 2, 3]))
    assert carry.item() == 7 and ys.tolist() == [1, 4, 12]
    carry, ys = scan(
        lambda c, x: (c + x, c), torch.tensor(0), torch.tensor([1, 2, 3]), reverse=True
    )
    assert carry.item() == 6 and ys.tolist() == [5, 3, 0]
    assert map(lambda x, y: x * y, torch.tensor([1, 2]), 10).tolist() == [10, 20]
