"""Branches and loops as functions: `torch.cond`, `torch.while_loop`, and scans.

They run at once, as in eager PyTorch; gradients flow through what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    RuntimeError unless `pred` is a bool, a number or a tensor of one element.

    >>> import ember as torch
    >>> torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.zeros(1),))
    tensor([1.])
    """
    one = pred.numel() == 1 if isinstance(pred, Tensor) else isinstance(pred, (bool, int, float))
    wanted = "Expected pred to be bool or single-element tensor, but got"
    check(one, RuntimeError, lambda: f"{wanted} {pred}.")
    check(
        callable(true_fn) and callable(false_fn),
        RuntimeError,
        "Expect both branches to be callable.",
    )
    check(
        isinstance(operands, (tuple, list)),
        RuntimeError,
        f"Expect operands to be a tuple of possibly nested dict/list/tuple, but got {operands}.",
    )
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """What `values = body_fn(*values)` ends with when `cond_fn(*values)` no longer holds.

    >>> import ember as torch
    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, torch.ones(1)))
    (3, tensor([8.]))
    """
    values = tuple(carried_inputs)
    while cond_fn(*values):
        found = body_fn(*values)
        check(
            isinstance(found, (tuple, list)) and len(found) == len(values),
            RuntimeError,
            f"body_fn should return a tuple or list of {len(values)} values",
        )
        values = tuple(found)
    return values


def _length(leaves: list[Any], dim: int) -> int:
    check(
        bool(leaves) and all(isinstance(leaf, Tensor) for leaf in leaves),
        RuntimeError,
        "xs leaves must be Tensors",
    )
    lengths = {leaf.size(dim) for leaf in leaves}
    check(len(lengths) == 1, RuntimeError, f"xs leaves must have the same length, not {lengths}")
    return int(lengths.pop())


def _steps(xs: Any, dim: int, reverse: bool) -> list[Any]:
    """The slices of nested tensors along a dim, in the order of a scan."""
    count = _length(tree_leaves(xs), dim)
    order = reversed(range(count)) if reverse else range(count)
    return [tree_map(lambda x, i=i: x.select(dim, i), xs) for i in order]


def _stacked(parts: list[Any], dim: int, reverse: bool) -> Any:
    ordered = parts[::-1] if reverse else parts
    leaves = [tree_flatten(part)[0] for part in ordered]
    spec = tree_flatten(ordered[0])[1]
    return tree_unflatten([ops.stack(column, dim) for column in zip(*leaves, strict=True)], spec)


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """The running combinations of the slices of `xs`, nested tensors, along `dim`.

    `combine_fn` must be associative; with `reverse` the scan begins at the end. ValueError for a
    mode that is neither "pointwise" nor "generic".

    >>> import ember as torch
    >>> from ember._higher_order_ops import associative_scan
    >>> associative_scan(torch.mul, torch.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  2,  6, 24])
    """
    check(callable(combine_fn), ValueError, f"Combine_fn must be callable, but got {combine_fn}")
    check(
        combine_mode in ("pointwise", "generic"),
        ValueError,
        f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}",
    )
    steps = _steps(xs, dim, reverse)
    if not steps:
        return xs
    results = [steps[0]]
    for step in steps[1:]:
        results.append(combine_fn(results[-1], step))
    return _stacked(results, dim, reverse)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for the slices x of `xs`: the last carry, and the ys
    stacked in a first dim.

    >>> import ember as torch
    >>> from ember._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), torch.tensor(1), torch.tensor([1, 2, 3]))
    (tensor(7), tensor([ 1,  4, 12]))
    """
    carry, found = init, []
    for step in _steps(xs, dim, reverse):
        carry, y = combine_fn(carry, step)
        found.append(y)
    check(bool(found), RuntimeError, "All xs leaves must at least have a scan dimension > 0")
    return carry, _stacked(found, 0, reverse)


def map_over(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for the slices x of `xs` along the first dim, stacked."""
    found = [f(step, *args) for step in _steps(xs, 0, False)]
    check(bool(found), RuntimeError, "Leading dimensions of mapped xs cannot be 0.")
    return _stacked(found, 0, False)
