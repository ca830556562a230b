"""Losses: warnings, errors, special values; the numbers are in test_functional_values.py."""

import math
import warnings

import pytest

import ember as torch
import ember.nn.functional as F


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_shapes_that_broadcast_are_warned_of(loss):
    with pytest.warns(UserWarning, match=r"target size \(torch.Size\(\[3\]\)\) that is different"):
        wide = loss(torch.zeros(3, 1), torch.tensor([0.0, 1.0, 2.0]))
    assert wide.item() > 0
    with pytest.raises(RuntimeError, match="must match"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss(torch.zeros(2), torch.zeros(3))


def test_the_warning_names_the_line_of_the_call():
    with pytest.warns(UserWarning, match="target size") as seen:
        F.mse_loss(torch.zeros(3, 1), torch.zeros(3))
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("average", "reduce", "word"),
    [(False, None, "sum"), (None, False, "none"), (True, True, "mean"), (False, True, "sum")],
)
def test_the_old_arguments_of_reduction(average, reduce, word):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    with pytest.warns(UserWarning, match=f"please use reduction='{word}' instead"):
        old = F.mse_loss(x, y, size_average=average, reduce=reduce)
    assert old.tolist() == F.mse_loss(x, y, reduction=word).tolist()


X, Y = torch.tensor([0.2, 0.7]), torch.tensor([0.0, 1.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.mse_loss(X, Y, reduction="foo"), ValueError, "foo is not a valid value for"),
        (lambda: F.mse_loss(X, Y, weight=torch.ones(3)), ValueError, "Weights and input must have"),
        (lambda: F.mse_loss(X.long(), Y.long()), NotImplementedError, "not implemented for 'Long'"),
        (lambda: F.smooth_l1_loss(X, Y, beta=-1), RuntimeError, "negative values for beta"),
        (lambda: F.huber_loss(X, Y, delta=0), RuntimeError, "non-positive values for delta"),
        (
            lambda: F.binary_cross_entropy(X.unsqueeze(1), Y),
            ValueError,
            r"target size \(torch.Size\(\[2\]\)\) that is different to the input size",
        ),
        (lambda: F.binary_cross_entropy(X + 1, Y), RuntimeError, "should be between 0 and 1"),
        (lambda: F.binary_cross_entropy(X / 0 * 0, Y), RuntimeError, "between 0 and 1"),
        (
            lambda: F.binary_cross_entropy(X, Y.double()),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
        (
            lambda: F.binary_cross_entropy_with_logits(X.unsqueeze(1), Y),
            ValueError,
            r"Target size \(torch.Size\(\[2\]\)\) must be the same as input size",
        ),
        (lambda: F.kl_div(X.long(), Y, reduction="sum"), RuntimeError, "Integral inputs"),
        (lambda: F.gaussian_nll_loss(X, Y, -1.0), ValueError, "var has negative entry/entries"),
        (lambda: F.gaussian_nll_loss(X, Y, -X), ValueError, "var has negative entry/entries"),
        (lambda: F.gaussian_nll_loss(X, Y, torch.ones(3)), ValueError, "var is of incorrect size"),
        (lambda: F.gaussian_nll_loss(X, Y, X, reduction="foo"), ValueError, "foo is not valid"),
        (
            lambda: F.cosine_embedding_loss(X, X, torch.tensor([1])),
            RuntimeError,
            r"1D target tensor expects 2D input tensors, but found inputs with sizes \[2\]",
        ),
        (
            lambda: F.margin_ranking_loss(X, X, torch.ones(1, 2)),
            RuntimeError,
            "All input tensors should have same dimension",
        ),
        (lambda: F.triplet_margin_loss(X, X, X, margin=0), ValueError, "greater than 0, got 0"),
        (
            lambda: F.triplet_margin_loss(X, X, X.unsqueeze(0)),
            RuntimeError,
            "anchor 1D, positive 1D, and negative 2D",
        ),
        (lambda: F.cosine_similarity(X.long(), X.long()), RuntimeError, "common dtype is Long"),
        (lambda: F.pdist(X), RuntimeError, "pdist only supports 2D tensors, got: 1D"),
        (
            lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 2)),
            RuntimeError,
            "same number of columns. X1: 3 X2: 2",
        ),
        (
            lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 3), compute_mode="x"),
            ValueError,
            "x is not a valid value for compute_mode",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


LOGITS = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.nll_loss(LOGITS, torch.tensor([0, 1])),
            ValueError,
            r"Expected input batch_size \(3\) to match target batch_size \(2\)",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.tensor([0, 1, 4])),
            IndexError,
            "Target 4 is out of bounds",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.tensor([0, 1, -1])),
            IndexError,
            "Target -1 is out of bounds",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.tensor([[0], [1], [2]])),
            RuntimeError,
            "0D or 1D target tensor expected, multi-target not supported",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.zeros(3)),
            RuntimeError,
            "expected target dtype to be Long or Byte, but got Float",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.zeros(3).long(), torch.ones(3)),
            RuntimeError,
            r"weight tensor should be defined either for all 4 classes .* of shape: \[3\]",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.zeros(3, 4).long()),
            RuntimeError,
            "Expected floating point type for target with class probabilities, got Long",
        ),
        (
            lambda: F.cross_entropy(LOGITS, LOGITS, ignore_index=1),
            RuntimeError,
            "ignore_index is not supported for floating point target",
        ),
        (
            lambda: F.cross_entropy(LOGITS, torch.zeros(3).long(), label_smoothing=1.1),
            RuntimeError,
            "label_smoothing must be between 0.0 and 1.0. Got: 1.1",
        ),
        (
            lambda: F.cross_entropy(torch.zeros(2, 3, 5), torch.zeros(2, 4).long()),
            RuntimeError,
            r"Expected target size \[2, 5\], got \[2, 4\]",
        ),
        (
            lambda: F.multi_margin_loss(LOGITS, torch.tensor([0, 1, 5])),
            RuntimeError,
            "target out of range",
        ),
        (
            lambda: F.multi_margin_loss(LOGITS, torch.tensor([0])),
            RuntimeError,
            r"Expected target size \[3\], but got \[1\]",
        ),
        (
            lambda: F.multilabel_margin_loss(LOGITS, torch.zeros(2, 4).long()),
            RuntimeError,
            r"inconsistent target size: \[2, 4\] for input of size: \[3, 4\]",
        ),
        (
            lambda: F.ctc_loss(torch.zeros(3, 1, 2), torch.tensor([[1]]), [4], [1]),
            RuntimeError,
            "Expected input_lengths to have value at most 3, but got value 4",
        ),
        (
            lambda: F.ctc_loss(torch.zeros(3, 1, 2), torch.tensor([[1]]), [3], [1], blank=2),
            RuntimeError,
            "blank must be in label range",
        ),
    ],
)
def test_refused_classes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_all_targets_ignored():
    ignored = torch.tensor([-100, -100, -100])
    assert math.isnan(F.cross_entropy(LOGITS, ignored).item())
    assert F.cross_entropy(LOGITS, ignored, reduction="sum").item() == 0


def test_losses_of_nothing():
    empty = torch.zeros(0)
    assert math.isnan(F.mse_loss(empty, empty).item())
    assert F.mse_loss(empty, empty, reduction="sum").item() == 0
    assert math.isnan(F.cross_entropy(torch.zeros(0, 3), torch.zeros(0).long()).item())


def test_probabilities_at_the_edges_have_finite_losses_and_slopes():
    x = torch.tensor([0.0, 1.0, 0.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, torch.tensor([1.0, 0.0, 0.0]), reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [100.0, 100.0, 0.0]
    assert x.grad.tolist() == pytest.approx([-1e12, 1e12, 0.0])


def test_kl_div_warns_of_its_mean():
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(torch.zeros(2, 2), torch.ones(2, 2))


def test_infinite_ctc_losses():
    log_probs = torch.zeros(2, 1, 3).log_softmax(-1).requires_grad_()
    long = torch.tensor([[1, 2, 1]])
    assert F.ctc_loss(log_probs, long, [2], [3]).item() == math.inf
    loss = F.ctc_loss(log_probs, long, [2], [3], zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert log_probs.grad.abs().max().item() == 0


def test_half_precision_losses_are_computed_in_float32():
    x = torch.full((4,), 300.0, dtype=torch.float16)
    assert F.mse_loss(x, x * 0, reduction="none").tolist() == [math.inf] * 4
    near = torch.tensor([2.0, 2.002], dtype=torch.float16)
    assert F.cross_entropy(near, torch.tensor(0)).dtype == torch.float16
    assert F.l1_loss(x.bfloat16(), x.bfloat16() + 2).item() == pytest.approx(2)
