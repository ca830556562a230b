"""rearrange: dims by name."""

import pytest


@pytest.mark.parametrize(
    ("pattern", "lengths", "shape", "first"),
    [
        ("a b c -> c b a", {}, (4, 3, 2), [0, 12, 4, 16]),
        ("a b c -> a (b c)", {}, (2, 12), [0, 1, 2, 3]),
        ("a b (c d) -> a d b c", {"d": 2}, (2, 2, 3, 2), [0, 2, 4, 6]),
        ("a ... -> ... a", {}, (3, 4, 2), [0, 12, 1, 13]),
        ("a ... -> a (...)", {}, (2, 12), [0, 1, 2, 3]),
        ("a b c -> a b c 1", {}, (2, 3, 4, 1), [0, 1, 2, 3]),
        ("a (1 b) c -> (a b) c", {}, (6, 4), [0, 1, 2, 3]),
    ],
)
def test_patterns(torch, pattern, lengths, shape, first):
    found = torch.func.rearrange(torch.arange(24).view(2, 3, 4), pattern, **lengths)
    assert found.shape == shape and found.reshape(-1)[:4].tolist() == first


def test_lists_and_ones(torch):
    x = torch.arange(6).view(2, 3)
    assert torch.func.rearrange([x, x], "n a b -> a n b").shape == (2, 2, 3)
    assert torch.func.rearrange(x[:1], "1 b -> b").tolist() == [0, 1, 2]
    assert torch.func.rearrange(torch.ones(1, 1), "1 1 -> ").shape == ()


@pytest.mark.parametrize(
    ("pattern", "lengths", "message"),
    [
        ("a b c -> a b", {}, "Identifiers only on one side of rearrange expression"),
        ("a b -> a b", {}, r"Number of dimensions in pattern \(2\) must be equal"),
        ("a b c", {}, "Pattern must contain a single '->' separator"),
        ("a b c -> a b c", {"d": 2}, "Identifiers not found in rearrange expression"),
        ("a a c -> a c", {}, "duplicate dimension 'a'"),
        ("a b 2 -> a b", {}, "only supports unnamed axes of size 1"),
        ("a b (...) -> a b ...", {}, "in the left side is not allowed"),
        ("a b c -> ... a b c", {}, "Ellipsis found in right side, but not left side"),
        ("a b c -> ((a b) c)", {}, "Axis composition is one-level"),
        ("a (b c -> a b c", {}, "Imbalanced parentheses"),
        ("a b _c -> a b _c", {}, "Invalid axis identifier: _c"),
        ("a-b c d -> c d", {}, "Unknown character '-'"),
    ],
)
def test_refusals(torch, pattern, lengths, message):
    with pytest.raises(ValueError, match=message):
        torch.func.rearrange(torch.arange(24).view(2, 3, 4), pattern, **lengths)


def test_gradients(torch):
    x = torch.arange(24.0).view(2, 3, 4)
    found = torch.func.grad(lambda a: (torch.func.rearrange(a, "a b c -> (c a) b") * 2).sum())(x)
    assert found.unique().tolist() == [2.0]
    assert torch.vmap(lambda a: torch.func.rearrange(a, "b c -> c b"))(x).shape == (2, 4, 3)
