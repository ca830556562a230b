"""Connectionist temporal classification (Graves et al., 2006)."""

import math

import numpy as np

from ember.core.registry import FUNCTION, F, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING, INTEGRAL, float64
from ember.errors import check
from ember.ops.create import from_numpy
from ember.ops.losses import check_reduction
from ember.ops.padding import pad
from ember.ops.pointwise import where_
from ember.scalar.primitives import eq, exp, log, make, where


@elementwise(accepts=FLOATING)
def log_sum_of_three(a, b, c):
    """log(e^a + e^b + e^c), where any of them may be −inf."""
    top = make("maximum", make("maximum", a, b), c)
    top = where(eq(top, -math.inf), 0, top)
    return top + log(exp(a - top) + exp(b - top) + exp(c - top))


def _log_sum_grad(g, a, b, c, result):
    """Each term's share of the sum; nothing where the sum is zero."""
    return tuple(where(eq(result, -math.inf), 0, g * exp(x - result)) for x in (a, b, c))


log_sum_of_three.grad = _log_sum_grad


def _lengths(name, lengths, batch, most):
    """Lengths as an int64 vector on the host."""
    if isinstance(lengths, Tensor):
        check(
            lengths.dtype.category <= INTEGRAL,
            RuntimeError,
            f"{name} must be integral",
        )
        lengths = lengths.reshape(-1).tolist()
    values = np.array([int(n) for n in lengths], np.int64)
    check(len(values) == batch, RuntimeError, f"{name} must be of size batch_size")
    for n in values:
        check(n >= 0, RuntimeError, f"Expected {name} to have value at least 0, but got value {n}")
        check(
            most is None or n <= most,
            RuntimeError,
            f"Expected {name} to have value at most {most}, but got value {n}",
        )
    return values


def _labels(targets, lengths, blank):
    """Targets with blanks around them, (N, 2·S + 1) on the host, and where a label may follow
    the one before the blank before it."""
    batch, longest = len(lengths), int(lengths.max(initial=0))
    check(
        targets.dim() in (1, 2),
        RuntimeError,
        lambda: (
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument "
            "#2 'targets' (while checking arguments for ctc_loss)"
        ),
    )
    given = np.array(targets.tolist()).astype(np.int64).reshape(tuple(targets.shape))
    labels = np.full((batch, 2 * longest + 1), blank)
    if given.ndim == 1:
        total = int(lengths.sum())
        check(
            len(given) == total,
            RuntimeError,
            f"Expected tensor to have size {total} at dimension 0, but got size {len(given)} for "
            "argument #2 'targets' (while checking arguments for ctc_loss)",
        )
        rows = np.split(given, np.cumsum(lengths)[:-1])
    else:
        check(
            len(given) == batch,
            RuntimeError,
            f"Expected tensor to have size {batch} at dimension 0, but got size {len(given)} for "
            "argument #2 'targets' (while checking arguments for ctc_loss)",
        )
        check(
            given.shape[1] >= longest,
            RuntimeError,
            f"Expected tensor to have size at least {longest} at dimension 1, but got size "
            f"{given.shape[1]} for argument #2 'targets' (while checking arguments for ctc_loss)",
        )
        rows = given
    for row, own, n in zip(labels, rows, lengths):
        row[1 : 2 * n : 2] = own[:n]
    may_skip = np.zeros(labels.shape, bool)
    may_skip[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
    return labels, may_skip


def _likelihoods(log_probs, labels, may_skip, input_lengths, target_lengths):
    """−log p(targets | log_probs) of each sequence, by the forward recursion over steps."""
    device, (steps, batch, _) = log_probs.device, log_probs.shape
    width = labels.shape[1]
    index = from_numpy(labels).to(device).unsqueeze(0).expand(steps, batch, width)
    emitted = log_probs.gather(2, index).unbind(0)
    blocked = from_numpy(~may_skip).to(device)
    ends = from_numpy(np.array(input_lengths)).to(device).unsqueeze(1)
    later = from_numpy(np.broadcast_to(np.arange(width) > 1, (batch, width)).copy()).to(device)
    alpha = emitted[0].masked_fill(later, -math.inf)
    for t in range(1, steps):
        moved = pad(alpha, (2, 0), value=-math.inf)
        skipped = moved.narrow(1, 0, width).masked_fill(blocked, -math.inf)
        total = log_sum_of_three(alpha, moved.narrow(1, 1, width), skipped) + emitted[t]
        alpha = where_(ends > t, total, alpha)
    last = from_numpy(2 * target_lengths).to(device).unsqueeze(1)
    final = alpha.gather(1, last)
    before = alpha.gather(1, (last - 1).clamp(min=0)).masked_fill(last == 0, -math.inf)
    never = final.detach().new_full(final.shape, -math.inf)
    loss = -log_sum_of_three(final, before, never).squeeze(1)
    started = from_numpy(input_lengths > 0).to(device)
    empty = from_numpy(np.where(target_lengths == 0, 0.0, math.inf)).to(device, log_probs.dtype)
    return where_(started, loss, empty)


def _with_softmax_term(loss, log_probs, input_lengths):
    """The loss, whose gradient also holds that of the normalisation of `log_probs`.

    The term added is zero. Its gradient, e^log_probs at the steps that count, makes each step's
    gradient add up to zero, as PyTorch's does.
    """
    steps = np.arange(len(log_probs))[:, None] < input_lengths
    counted = from_numpy(steps).to(log_probs.device).unsqueeze(-1)
    value = log_probs.detach()
    term = value.exp().masked_fill(~counted, 0) * (log_probs - value)
    return loss + term.masked_fill(~counted, 0).sum((0, 2))


def _ctc(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    check_reduction(reduction)
    check(log_probs.numel() > 0, RuntimeError, "log_probs tensor must not be empty")
    batched = log_probs.dim() == 3
    if log_probs.dim() == 2:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    check(
        log_probs.dim() == 3,
        RuntimeError,
        lambda: (
            f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for "
            "argument #1 'log_probs' (while checking arguments for ctc_loss)"
        ),
    )
    steps, batch, classes = log_probs.shape
    check(0 <= blank < classes, RuntimeError, "blank must be in label range")
    input_lengths = _lengths("input_lengths", input_lengths, batch, steps)
    target_lengths = _lengths("target_lengths", target_lengths, batch, None)
    labels, may_skip = _labels(targets, target_lengths, blank)
    check(
        bool(((labels >= 0) & (labels < classes)).all()),
        RuntimeError,
        f"targets must be classes from 0 to {classes - 1}",
    )
    dtype, log_probs = log_probs.dtype, log_probs.to(float64)  # sums of many small products
    loss = _likelihoods(log_probs, labels, may_skip, input_lengths, target_lengths)
    loss = _with_softmax_term(loss, log_probs, input_lengths).to(dtype)
    if zero_infinity:
        loss = where_(loss.detach() == math.inf, 0, loss)
    if reduction == "none":
        return loss if batched else loss.squeeze(0)
    if reduction == "sum":
        return loss.sum()
    divisor = from_numpy(np.maximum(target_lengths, 1)).to(loss.device, loss.dtype)
    return (loss / divisor).mean()


@composite(export=F)
def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """−log of the probability of targets, summed over all their alignments to the steps.

    log_probs (T, N, C) or (T, C), targets (N, S) or one after another, lengths (N,). "mean" divides
    by the target's length first. `zero_infinity` makes infinite losses, of targets too long, zero.
    RuntimeError for lengths that do not fit.

    >>> import ember as torch
    >>> log_probs = torch.zeros(2, 1, 2).log_softmax(2)
    >>> target, two, one = torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1])
    >>> torch.nn.functional.ctc_loss(log_probs, target, two, one)
    tensor(0.2877)
    """
    lengths = (input_lengths, target_lengths)
    return _ctc(log_probs, targets, *lengths, blank, reduction, zero_infinity)


@composite(export=FUNCTION, name="ctc_loss")
def ctc_loss_of(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction=1,
    zero_infinity=False,
):
    """`torch.nn.functional.ctc_loss` with its reduction as a number: 0 none, 1 mean, 2 sum."""
    word = ("none", "mean", "sum")[reduction]
    lengths = (input_lengths, target_lengths)
    return _ctc(log_probs, targets, *lengths, blank, word, zero_infinity)
