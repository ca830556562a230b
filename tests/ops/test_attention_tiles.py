"""Attention as one op is what the composition through all weights is."""

import itertools
import math

import pytest

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.nn import functional as F

SHAPES = [
    ((2, 3), 128, 128, 16, 8),
    ((2,), 200, 77, 16, 24),
    ((1, 2), 33, 300, 8, 8),
    ((3, 4), 40, 40, 16, 16),
    ((), 5, 6, 3, 2),
    ((2,), 130, 1, 4, 4),
    ((2, 3), 129, 130, 24, 65),
    ((3,), 65, 64, 80, 96),
    ((2, 1, 2, 2), 70, 40, 17, 33),
    ((1200,), 2, 3, 1, 2),
]


def example(shape, dtype=torch.float64):
    lead, queries, keys, width, made = shape
    generator = torch.Generator().manual_seed(1)
    sizes = [(queries, width), (keys, width), (keys, made)]
    return [
        torch.randn(*lead, *size, generator=generator, dtype=torch.float64)
        .to(dtype)
        .requires_grad_()
        for size in sizes
    ]


def composed(query, key, value, is_causal, scale):
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ value


@pytest.mark.parametrize(
    ("shape", "is_causal", "dtype"),
    list(itertools.product(SHAPES, [False, True], [torch.float32, torch.float64])),
)
def test_values_and_gradients(shape, is_causal, dtype):
    given, exact = example(shape, dtype), example(shape)
    mine = F.scaled_dot_product_attention(*given, is_causal=is_causal, scale=0.4)
    other = composed(*exact, is_causal, 0.4)
    near = {"atol": 2e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 1e-12, "rtol": 1e-9}
    torch.testing.assert_close(mine.double(), other, **near)
    g = torch.cos(torch.arange(mine.numel(), dtype=torch.float64)).reshape(mine.shape)
    found = torch.autograd.grad(mine, given, g.to(dtype))
    wanted = torch.autograd.grad(other, exact, g)
    for one, gradient in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), gradient, **near)


@pytest.mark.parametrize("is_causal", [False, True])
def test_heads_that_lie_in_a_joint_projection(is_causal):
    generator = torch.Generator().manual_seed(2)
    joint = torch.randn(2, 100, 3 * 4 * 16, generator=generator)
    slope = torch.randn(2, 100, 64, generator=generator)
    results = []
    for dtype, attend in (
        (torch.float32, lambda *given: F.scaled_dot_product_attention(*given, is_causal=is_causal)),
        (torch.float64, lambda *given: composed(*given, is_causal, 0.25)),
    ):
        leaf = joint.to(dtype, copy=True).requires_grad_()
        parts = [p.view(2, 100, 4, 16).transpose(1, 2) for p in leaf.split(64, 2)]
        made = attend(*parts).transpose(1, 2).reshape(2, 100, 64)
        made.backward(slope.to(dtype))
        results.append((made.double(), leaf.grad.double()))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_second_derivatives(is_causal):
    def function(*tensors):
        return F.scaled_dot_product_attention(*tensors, is_causal=is_causal)

    given = example(((2,), 3, 4, 2, 2))
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)


def test_scores_far_apart():
    query = torch.tensor([[300.0], [1.0]])
    key, value = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [5.0]])
    found = F.scaled_dot_product_attention(query, key, value, scale=1.0)
    assert found[0].item() == 5.0
    assert found[1].item() == pytest.approx((2 + 5 * math.e) / (1 + math.e))


def test_nan_reaches_only_the_queries_that_see_it():
    query, key, value = (t.detach() for t in example(((1,), 70, 70, 4, 4), torch.float32))
    key[0, 66] = math.nan
    found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert not found[0, :66].isnan().any() and found[0, 66:].isnan().all()
