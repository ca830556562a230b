"""Cross-entropy as one op is what the composition through log_softmax is."""

import math

import pytest

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.nn import functional as F
from ember.ops.class_loss import class_loss
from ember.ops.negative_log_likelihood import composed_cross_entropy

SHAPES = [(6, 4), (1, 1), (2, 3, 5), (2, 3, 2, 2)]


def example(shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    places = (shape[0], *shape[2:])
    target = torch.randint(0, shape[1], places, generator=generator)
    weight = torch.rand(shape[1], generator=generator, dtype=torch.float64).to(dtype) + 0.1
    return scores.requires_grad_(), target, weight


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [-100, 0])
def test_values_and_gradients(shape, reduction, smoothing, weighted, ignored):
    scores, target, weight = example(shape)
    if target.numel() > 2:
        target.view(-1)[1] = ignored
    weight = weight if weighted else None
    mine = F.cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    )
    other = composed_cross_entropy(scores, target, weight, ignored, reduction, smoothing)
    assert mine.grad_fn.op is class_loss
    g = torch.ones_like(mine) * 1.5
    found = torch.autograd.grad(mine, scores, g)[0]
    wanted = torch.autograd.grad(other, scores, g)[0]
    torch.testing.assert_close(mine, other, atol=1e-13, rtol=1e-12, equal_nan=True)
    torch.testing.assert_close(found, wanted, atol=1e-13, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("shape", [(40, 300), (3000, 7), (3, 21, 33, 17)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_rows(shape, smoothing, weighted):
    exact, target, wide = example(shape)
    scores, _, weight = example(shape, torch.float32)
    target.view(-1)[::5] = -100
    settings = {"reduction": "none", "label_smoothing": smoothing}
    mine = F.cross_entropy(scores, target, weight if weighted else None, **settings)
    other = F.cross_entropy(exact, target, wide if weighted else None, **settings)
    torch.testing.assert_close(mine.double(), other, atol=3e-6, rtol=3e-6)
    mine.sum().backward()
    other.sum().backward()
    torch.testing.assert_close(scores.grad.double(), exact.grad, atol=1e-6, rtol=1e-5)


def test_large_scores_neither_overflow_nor_vanish():
    scores = torch.tensor([[1e4, 0.0], [-math.inf, 2.0]], requires_grad=True)
    loss = F.cross_entropy(scores, torch.tensor([1, 1]), reduction="none")
    assert loss.tolist() == [1e4, 0.0]
    loss.sum().backward()
    assert scores.grad.tolist() == [[1.0, -1.0], [0.0, 0.0]]


def test_all_targets_ignored():
    scores = torch.ones(2, 3, requires_grad=True)
    target = torch.tensor([-100, -100])
    loss = F.cross_entropy(scores, target)
    assert math.isnan(loss.item())
    F.cross_entropy(scores, target, reduction="sum").backward()
    assert scores.grad.tolist() == [[0.0] * 3] * 2


def test_second_derivatives():
    scores, target, weight = example((3, 4))
    target[0] = -100
    for smoothing in (0.0, 0.3):

        def function(scores):
            return F.cross_entropy(scores, target, weight, label_smoothing=smoothing)  # noqa: B023

        assert gradcheck(function, (scores,))
        assert gradgradcheck(function, (scores,))


def test_a_class_out_of_bounds():
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([0, -1]))


def test_bytes_are_classes():
    loss = F.cross_entropy(torch.zeros(2, 4), torch.tensor([1, 3], dtype=torch.uint8))
    assert loss.item() == pytest.approx(math.log(4))


def test_weights_that_need_gradients_take_the_composition():
    scores, target, weight = example((4, 3))
    loss = F.cross_entropy(scores, target, weight.requires_grad_())
    assert getattr(loss.grad_fn, "op", None) is not class_loss


def test_vmap_takes_the_composition():
    scores, target, _ = example((4, 5, 3))
    target = torch.zeros(4, 5, dtype=torch.int64)
    found = torch.vmap(F.cross_entropy)(scores.detach(), target)
    for one, rows in zip(found, scores.detach()):
        torch.testing.assert_close(one, F.cross_entropy(rows, target[0]))


@pytest.mark.parametrize("shape", [(64, 10), (1, 700), (33, 16), (5, 257), (700, 1)])
@pytest.mark.parametrize("ignored", [-100, 0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_rows_without_weights(shape, ignored, reduction):
    exact, target, _ = example(shape)
    scores, _, _ = example(shape, torch.float32)
    target[::3] = ignored
    settings = {"reduction": reduction, "ignore_index": ignored}
    for classes in (target, target.repeat_interleave(2)[::2]):
        scores.grad = exact.grad = None
        found = F.cross_entropy(scores, classes, **settings)
        wanted = composed_cross_entropy(exact, target, None, ignored, reduction, 0.0)
        torch.testing.assert_close(found.double(), wanted, atol=2e-6, rtol=3e-6, equal_nan=True)
        g = torch.linspace(0.5, 2, found.numel()).reshape(found.shape)
        found.backward(g)
        wanted.backward(g.double())
        torch.testing.assert_close(
            scores.grad.double(), exact.grad, atol=2e-6, rtol=1e-5, equal_nan=True
        )


def test_rows_with_infinite_and_missing_scores():
    scores = torch.randn(70, 20, generator=torch.Generator().manual_seed(1))
    scores[1, 4], scores[2] = -math.inf, -math.inf
    scores[3, 3], scores[4, 5] = math.nan, math.inf
    target = torch.full((70,), 4)
    found = F.cross_entropy(scores, target, reduction="none")
    wanted = composed_cross_entropy(scores.double(), target, None, -100, "none", 0.0)
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("wrong", [-1, 10, 1 << 40])
def test_rows_refuse_classes_that_there_are_not(wrong):
    scores, target = torch.zeros(100, 10), torch.zeros(100, dtype=torch.int64)
    target[41] = wrong
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        F.cross_entropy(scores, target)
    assert F.cross_entropy(scores, target, ignore_index=wrong).item() == pytest.approx(math.log(10))
