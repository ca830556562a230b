"""Connectionist temporal classification (Graves et al., 2006)."""

import math

import numpy as np

from ember.backends.library import Library
from ember.core.registry import FUNCTION, F, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import INTEGRAL
from ember.errors import check
from ember.ops.create import from_numpy
from ember.ops.losses import check_reduction
from ember.ops.pointwise import where_


@library_op(Library.ctc)
def ctc(log_probs, labels, may_skip, input_lengths, target_lengths):
    """−log p(labels) of each sequence, and log p of each beginning of a path."""
    shape = (*log_probs.shape[:2], labels.shape[1])
    return log_probs.spec.with_shape((shape[1],)), log_probs.spec.with_shape(shape)


@library_op(Library.ctc_backward)
def ctc_backward(grad, log_probs, labels, may_skip, input_lengths, target_lengths, loss, alpha):
    """The gradient by the scores that the log_probs are the `log_softmax` of."""
    return log_probs.spec.with_shape(log_probs.shape)


def _ctc_gradient(g, log_probs, labels, may_skip, input_lengths, target_lengths, result):
    given = (labels, may_skip, input_lengths, target_lengths)
    return ctc_backward(g[0], log_probs, *given, *result), None, None, None, None


def _no_second_gradient(g):
    raise RuntimeError(
        "derivative for _ctc_loss_backward is not implemented: ctc_loss has first derivatives only"
    )


ctc.grad = _ctc_gradient
ctc_backward.grad = _no_second_gradient


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
    """−log p(targets | log_probs) of each sequence."""
    given = [
        from_numpy(np.ascontiguousarray(values)).to(log_probs.device)
        for values in (labels, may_skip, input_lengths, target_lengths)
    ]
    loss, _ = ctc(log_probs, *given)
    started = from_numpy(input_lengths > 0).to(log_probs.device)
    empty = from_numpy(np.where(target_lengths == 0, 0.0, math.inf))
    return where_(started, loss, empty.to(log_probs.device, log_probs.dtype))


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
    loss = _likelihoods(log_probs, labels, may_skip, input_lengths, target_lengths)
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
