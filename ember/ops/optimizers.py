"""The optimizers' updates: each a formula over one element that writes the parameter and its state
in one pass.

Numbers that combine options (1 - β, a bias correction) come computed in float64 by the optimizer,
since the kernel rounds them to its dtype. An option that is None is off, and its term is not in the
formula. The order of operations is PyTorch's, so that trajectories agree to rounding.
"""

from __future__ import annotations

from typing import Any

from ember.core.dispatch import as_number
from ember.core.registry import NAMESPACES, elementwise
from ember.core.tensor import Tensor
from ember.scalar import primitives

INFINITY = float("inf")
MAXIMIZE = {"maximize": (True, False)}


def run_update(
    update: Any, tensors: tuple[Tensor, ...], numbers: dict[str, Any], in_tensors: bool
) -> None:
    """Run an update: as one kernel, or as ordinary ops that can be differentiated and take
    tensors for numbers."""
    if not in_tensors:  # straight to the write: the arguments need no binding
        rest = [as_number(numbers[name]) for name in update.parameters[len(tensors) :]]
        update.write([*tensors, *rest], update.writes)
        return
    param, _, *state = tensors
    values = update.function(*tensors, **numbers)
    for target, value in zip((param, *state), values if state else (values,), strict=True):
        target.copy_(value)


def _either(name: str) -> Any:
    """The primitive for formulas, the Tensor method for tensors: so that an update reads as
    both."""
    primitive = getattr(primitives, name)

    def function(x: Any, *others: Any) -> Any:
        return getattr(x, name)(*others) if isinstance(x, Tensor) else primitive(x, *others)

    function.__doc__ = f"The primitive `{name}`, of formulas or of tensors."
    return function


absolute, maximum, sign, sqrt = (_either(name) for name in ("abs", "maximum", "sign", "sqrt"))


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; of formulas or of tensors."""
    return (
        NAMESPACES["torch"]["where"](condition, a, b)
        if isinstance(condition, Tensor)
        else primitives.where(condition, a, b)
    )


def _descent(param: Any, grad: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient to go down along."""
    grad = -grad if maximize else grad
    return grad if weight_decay is None else grad + weight_decay * param


def _mean(mean: Any, value: Any, weight: Any, keep: Any) -> Any:
    """The running mean of a value that gets this weight: from the mean, or (weight None) from
    the value."""
    return value - (value - mean) * keep if weight is None else mean + weight * (value - mean)


def _mean_of_squares(mean: Any, value: Any, keep: Any, weight: Any) -> Any:
    """The running mean of a value's square: keep + weight = 1."""
    return mean * keep + weight * value * value


def mean_weights(beta: Any) -> dict[str, Any]:
    """The arguments weight1 and beta1 of a running mean: the one of them that is less than a
    half, None the other."""
    weight = 1 - beta
    return {"weight1": weight, "beta1": None} if weight < 0.5 else {"weight1": None, "beta1": beta}


@elementwise(writes=("param",), literals=MAXIMIZE)
def sgd_(param, grad, *, lr, weight_decay, maximize):
    """p - lr·g."""
    return param - lr * _descent(param, grad, weight_decay, maximize)


@elementwise(writes=("param", "buffer"), literals={**MAXIMIZE, "nesterov": (True, False)})
def sgd_momentum_(param, grad, buffer, *, lr, momentum, share, weight_decay, nesterov, maximize):
    """b ← momentum·b + share·g, p ← p - lr·b; with Nesterov p - lr·(g + momentum·b)."""
    grad = _descent(param, grad, weight_decay, maximize)
    buffer = buffer * momentum + share * grad
    return param - lr * (grad + momentum * buffer if nesterov else buffer), buffer


@elementwise(writes=("param", "mean", "square"), literals=MAXIMIZE)
def adam_(
    param, grad, mean, square,
    *, step_size, shrink, weight_decay, weight1, beta1, weight2, beta2, root2, eps, maximize,
):  # fmt: skip
    """m and v by their decays, p ← p - step_size·m/(√v/root2 + eps), with root2 = √(1 - β₂ᵗ): the
    quotient is multiplied by root2 above and below, since a division of numbers is quicker than
    one of all elements."""
    param = param if shrink is None else param * shrink
    grad = _descent(param, grad, weight_decay, maximize)
    mean, square = _mean(mean, grad, weight1, beta1), _mean_of_squares(square, grad, beta2, weight2)
    step = (step_size * root2) * mean / (sqrt(square) + eps * root2)
    return param - step, mean, square


@elementwise(writes=("param", "mean", "square", "largest"), literals=MAXIMIZE)
def adam_amsgrad_(
    param, grad, mean, square, largest,
    *, step_size, shrink, weight_decay, weight1, beta1, weight2, beta2, root2, eps, maximize,
):  # fmt: skip
    """Adam divided by the root of the largest v so far."""
    param = param if shrink is None else param * shrink
    grad = _descent(param, grad, weight_decay, maximize)
    mean, square = _mean(mean, grad, weight1, beta1), _mean_of_squares(square, grad, beta2, weight2)
    largest = maximum(largest, square)
    step = (step_size * root2) * mean / (sqrt(largest) + eps * root2)
    return param - step, mean, square, largest


@elementwise(writes=("param", "mean", "norm"), literals=MAXIMIZE)
def adamax_(
    param, grad, mean, norm, *, step_size, weight_decay, weight1, beta1, beta2, eps, maximize
):
    """m by its decay, u ← max(β₂·u, |g| + eps), p ← p - step_size·m/u."""
    grad = _descent(param, grad, weight_decay, maximize)
    mean, norm = _mean(mean, grad, weight1, beta1), maximum(norm * beta2, absolute(grad) + eps)
    return param - step_size * mean / norm, mean, norm


@elementwise(writes=("param", "mean", "square"), literals=MAXIMIZE)
def nadam_(
    param, grad, mean, square,
    *, grad_size, mean_size, shrink, weight_decay, weight1, beta1, weight2, beta2, bias2, eps,
    maximize,
):  # fmt: skip
    """m and v by their decays, p ← p - (grad_size·g + mean_size·m)/(√(v/bias2) + eps)."""
    param = param if shrink is None else param * shrink
    grad = _descent(param, grad, weight_decay, maximize)
    mean, square = _mean(mean, grad, weight1, beta1), _mean_of_squares(square, grad, beta2, weight2)
    root = sqrt(square / bias2) + eps
    return param - grad_size * grad / root - mean_size * mean / root, mean, square


@elementwise(writes=("param", "mean", "square"), literals=MAXIMIZE)
def radam_(
    param, grad, mean, square,
    *, lr, bias1, rectified, shrink, weight_decay, weight1, beta1, weight2, beta2, eps, maximize,
):  # fmt: skip
    """m and v by their decays, p ← p - lr·m/bias1·rectified/(√v + eps), or without the quotient
    if it is None."""
    param = param if shrink is None else param * shrink
    grad = _descent(param, grad, weight_decay, maximize)
    mean, square = _mean(mean, grad, weight1, beta1), _mean_of_squares(square, grad, beta2, weight2)
    step = mean / bias1 * lr
    if isinstance(rectified, Tensor):  # a tensor says by a zero what None says
        step = step * where(rectified > 0, rectified / (sqrt(square) + eps), 1.0)
    elif rectified is not None:
        step = step * (rectified / (sqrt(square) + eps))
    return param - step, mean, square


@elementwise(writes=("param", "square"), literals=MAXIMIZE)
def rmsprop_(param, grad, square, *, lr, alpha, weight, eps, weight_decay, maximize):
    """v by its decay, p ← p - lr·g/(√v + eps)."""
    grad = _descent(param, grad, weight_decay, maximize)
    square = _mean_of_squares(square, grad, alpha, weight)
    return param - lr * grad / (sqrt(square) + eps), square


@elementwise(writes=("param", "square", "buffer"), literals=MAXIMIZE)
def rmsprop_momentum_(
    param, grad, square, buffer, *, lr, alpha, weight, eps, weight_decay, momentum, maximize
):
    """v by its decay, b ← momentum·b + g/(√v + eps), p ← p - lr·b."""
    grad = _descent(param, grad, weight_decay, maximize)
    square = _mean_of_squares(square, grad, alpha, weight)
    buffer = buffer * momentum + grad / (sqrt(square) + eps)
    return param - lr * buffer, square, buffer


@elementwise(writes=("param", "square", "mean"), literals=MAXIMIZE)
def rmsprop_centered_(
    param, grad, square, mean, *, lr, alpha, weight, weight1, beta1, eps, weight_decay, maximize
):
    """v and m by their decays, p ← p - lr·g/(√(v - m²) + eps)."""
    grad = _descent(param, grad, weight_decay, maximize)
    square, mean = _mean_of_squares(square, grad, alpha, weight), _mean(mean, grad, weight1, beta1)
    return param - lr * grad / (sqrt(square - mean * mean) + eps), square, mean


@elementwise(writes=("param", "square", "mean", "buffer"), literals=MAXIMIZE)
def rmsprop_centered_momentum_(
    param, grad, square, mean, buffer,
    *, lr, alpha, weight, weight1, beta1, eps, weight_decay, momentum, maximize,
):  # fmt: skip
    """v and m by their decays, b ← momentum·b + g/(√(v - m²) + eps), p ← p - lr·b."""
    grad = _descent(param, grad, weight_decay, maximize)
    square, mean = _mean_of_squares(square, grad, alpha, weight), _mean(mean, grad, weight1, beta1)
    buffer = buffer * momentum + grad / (sqrt(square - mean * mean) + eps)
    return param - lr * buffer, square, mean, buffer


@elementwise(writes=("param", "total"), literals=MAXIMIZE)
def adagrad_(param, grad, total, *, rate, eps, weight_decay, maximize):
    """s ← s + g², p ← p - rate·g/(√s + eps)."""
    grad = _descent(param, grad, weight_decay, maximize)
    total = total + grad * grad
    return param - rate * grad / (sqrt(total) + eps), total


@elementwise(writes=("param", "square", "moved"), literals=MAXIMIZE)
def adadelta_(param, grad, square, moved, *, lr, rho, weight, eps, weight_decay, maximize):
    """v by its decay, d = √(u + eps)/√(v + eps)·g, u by its decay of d², p ← p - lr·d."""
    grad = _descent(param, grad, weight_decay, maximize)
    square = _mean_of_squares(square, grad, rho, weight)
    delta = sqrt(moved + eps) / sqrt(square + eps) * grad
    return param - lr * delta, square, _mean_of_squares(moved, delta, rho, weight)


@elementwise(writes=("param", "average"), literals=MAXIMIZE)
def asgd_(param, grad, average, *, eta, shrink, mu, weight_decay, maximize):
    """p ← shrink·p - eta·g, ax ← ax + mu·(p - ax); mu None stands for 1."""
    param = param * shrink - eta * _descent(param, grad, weight_decay, maximize)
    return param, param if mu is None else average + (param - average) * mu


@elementwise(writes=("param", "previous", "size"), literals=MAXIMIZE)
def rprop_(param, grad, previous, size, *, shrink, grow, smallest, largest, maximize):
    """Steps grown where g keeps its sign and shrunk where it turned, there without a step, p ← p
    - sign(g)·size."""
    grad = -grad if maximize else grad
    agreement = sign(grad * previous)
    turned = agreement < 0
    factor = where(agreement > 0, grow, where(turned, shrink, 1 + agreement))
    size = size * factor
    size = where(size < smallest, smallest, where(size > largest, largest, size))
    grad = where(turned, 0.0, grad)
    return param - sign(grad) * size, grad, size


@elementwise(writes=("scale", "tracker"))
def update_scale_(scale, tracker, found_inf, *, growth, backoff, interval):
    """The factor of a GradScaler after a step: backed off if infinities were found, grown after
    `interval` without."""
    grown = tracker + 1 >= interval
    larger = scale * growth
    good = where(grown & (larger < INFINITY), larger, scale)
    return where(found_inf > 0, scale * backoff, good), where(
        (found_inf > 0) | grown, 0, tracker + 1
    )
