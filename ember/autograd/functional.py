"""Jacobians, Hessians and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ember.autograd.backward import grad
from ember.core import modes
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.joining import cat


def _as_tuple(value: Any, who: str, what: str) -> tuple[bool, tuple[Any, ...]]:
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for position, item in enumerate(values):
        check(
            isinstance(item, Tensor),
            TypeError,
            f"The {what} given to {who} must be either a Tensor or a tuple of Tensors but the "
            f"value at index {position} has type {type(item)}.",
        )
    return is_tuple, tuple(values)


def _leaves(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in inputs
    )


def _evaluate(
    func: Callable[..., Any], inputs: tuple[Any, ...], who: str
) -> tuple[bool, tuple[Any, ...]]:
    return _as_tuple(func(*inputs), who, "outputs of the user-provided function")


def _zeros_or(found: Any, like: Any, strict: bool, what: str) -> Any:
    if found is None:
        check(
            not strict,
            RuntimeError,
            f"{what} independent of an input, which strict=True does not allow",
        )
        return like.detach().new_zeros(like.shape)
    return found


def _packed(is_tuple: bool, values: Any) -> Any:
    return tuple(values) if is_tuple else values[0]


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of each output element by each input element: shape (*output, *input), nested
    for tuples. With `vectorize` all rows are computed at once (by columns, in "forward-mode")."""
    _check_strategy("jacobian", strategy, vectorize, strict, create_graph)
    many_in, xs = _as_tuple(inputs, "jacobian", "inputs")
    if strategy == "forward-mode":
        return _by_columns(func, xs, many_in)
    with modes.enable_grad():
        xs = _leaves(xs, create_graph)
        if vectorize:
            return _by_rows_at_once(func, xs, many_in, create_graph)
        many_out, ys = _evaluate(func, xs, "jacobian")
        rows_of_all = []
        for y in ys:
            rows: list[list[Any]] = [[] for _ in xs]
            for element in y.reshape(-1).unbind(0) if y.numel() else ():
                if element.requires_grad:
                    found = grad(
                        element, xs, retain_graph=True, create_graph=create_graph, allow_unused=True
                    )
                else:
                    check(
                        not strict,
                        RuntimeError,
                        "Output of the user-provided function does not require gradients",
                    )
                    found = (None,) * len(xs)
                for column, value, x in zip(rows, found, xs, strict=True):
                    column.append(_zeros_or(value, x, strict, "the output is"))
            rows_of_all.append(
                tuple(_stack(column, y, x) for column, x in zip(rows, xs, strict=True))
            )
    result = tuple(_packed(many_in, row) for row in rows_of_all)
    return _packed(many_out, result)


STRATEGIES = ("forward-mode", "reverse-mode")


def _check_strategy(
    name: str, strategy: str, vectorize: bool, strict: bool, create_graph: bool
) -> None:
    check(
        strategy in STRATEGIES,
        AssertionError,
        'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function '
        'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
        'prefer to use "reverse-mode".',
    )
    where = f"torch.autograd.functional.{name}"
    if strategy == "forward-mode":
        check(
            not create_graph,
            NotImplementedError,
            f'{where}: `create_graph=True` and `strategy="forward-mode"` are not supported '
            "together (yet). Please either set `create_graph=False` or "
            '`strategy="reverse-mode"`.',
        )
        check(
            not strict,
            RuntimeError,
            f'{where}: `strict=True` and `strategy="forward-mode"` are not supported together '
            '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.',
        )
        check(
            vectorize,
            NotImplementedError,
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`.",
        )
    check(
        not (vectorize and strict),
        RuntimeError,
        f"{where}: `strict=True` and `vectorized=True` are not supported together. Please either "
        "set `strict=False` or `vectorize=False`.",
    )


def _by_columns(func: Callable[..., Any], xs: tuple[Any, ...], many_in: bool) -> Any:
    """The Jacobian by forward mode."""
    which = tuple(range(len(xs)))
    values = [x.detach() for x in xs]
    found = import_module("ember.func").jacfwd(func, which, randomness="same")(*values)
    many_out = not isinstance(found[0], Tensor)
    rows = found if many_out else (found,)
    return _packed(many_out, [_packed(many_in, row) for row in rows])


def _by_rows_at_once(
    func: Callable[..., Any], xs: tuple[Any, ...], many_in: bool, create_graph: bool
) -> Any:
    """The Jacobian by one backward pass for a batch of unit vectors."""
    many_out, ys = _evaluate(func, xs, "jacobian")
    rows = []
    for y in ys:
        found: tuple[Any, ...] = (None,) * len(xs)
        if y.requires_grad and y.numel():
            units = _units(y)
            found = grad(
                y,
                xs,
                units,
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
                is_grads_batched=True,
            )
        shapes = [(*y.shape, *x.shape) for x in xs]
        rows.append(
            _packed(
                many_in,
                [
                    x.new_zeros(shape) if g is None else g.reshape(shape)
                    for g, x, shape in zip(found, xs, shapes, strict=True)
                ],
            )
        )
    return _packed(many_out, rows)


def _units(y: Any) -> Any:
    """The unit vectors of a tensor's elements, each in its shape."""
    flat = y.detach().new_zeros((y.numel(), y.numel()))
    flat.diagonal().fill_(1)
    return flat.reshape((y.numel(), *y.shape))


def _stack(column: list[Any], y: Any, x: Any) -> Any:
    if not column:
        return x.new_zeros((*y.shape, *x.shape))
    parts = [part.unsqueeze(0) for part in column]
    joined = parts[0] if len(parts) == 1 else _cat(parts)
    return joined.reshape((*y.shape, *x.shape))


def _cat(parts: list[Any]) -> Any:
    return cat(parts, 0)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one number as output: shape (*input, *input),
    nested for tuples."""
    _check_strategy("hessian", outer_jacobian_strategy, vectorize, strict, create_graph)
    many, _ = _as_tuple(inputs, "hessian", "inputs")

    def first(*xs: Any) -> Any:
        out = func(*xs)
        check(
            isinstance(out, Tensor) and out.numel() == 1,
            RuntimeError,
            "The Tensor returned by the function given to hessian should contain a single element",
        )
        if outer_jacobian_strategy == "forward-mode":
            which = tuple(range(len(xs)))
            found = import_module("ember.func").jacrev(lambda *a: func(*a).reshape(()), which)(*xs)
        else:
            found = jacobian(
                lambda *a: func(*a).reshape(()),
                xs,
                create_graph=True,
                strict=strict,
                vectorize=vectorize,
            )
        return tuple(found) if many else found[0]

    return jacobian(
        first,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def _vectors(v: Any, like: tuple[Any, ...], who: str) -> tuple[Any, ...]:
    if v is None:
        check(
            len(like) == 1 and like[0].numel() == 1,
            RuntimeError,
            f"The vector v can only be None if the user-provided function of {who} has one output "
            "of a single element",
        )
        return (like[0].new_ones(like[0].shape),)
    _, vs = _as_tuple(v, who, "vector v")
    for a, b in zip(vs, like, strict=True):
        check(
            a.shape == b.shape,
            RuntimeError,
            f"v has invalid size: should be {b.shape} but got {a.shape}.",
        )
    return vs


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(outputs, vᵀ · Jacobian)."""
    many_in, xs = _as_tuple(inputs, "vjp", "inputs")
    with modes.enable_grad():
        xs = _leaves(xs, create_graph)
        many_out, ys = _evaluate(func, xs, "vjp")
        found = grad(ys, xs, _vectors(v, ys, "vjp"), create_graph=create_graph, allow_unused=True)
        found = tuple(
            _zeros_or(g, x, strict, "the output is") for g, x in zip(found, xs, strict=True)
        )
    outs = ys if create_graph else tuple(y.detach() for y in ys)
    return _packed(many_out, outs), _packed(many_in, found)


def _second(
    first: tuple[Any, ...],
    vectors: tuple[Any, ...],
    by: tuple[Any, ...],
    create_graph: bool,
    strict: bool,
) -> tuple[Any, ...]:
    """The gradients of `first`, weighted by vectors; zeros where nothing depends on `by`."""
    live = [(g, w) for g, w in zip(first, vectors, strict=True) if g.requires_grad]
    found: tuple[Any, ...] = (None,) * len(by)
    if live:
        outputs, weights = zip(*live, strict=True)
        found = grad(outputs, by, weights, create_graph=create_graph, allow_unused=True)
    return tuple(_zeros_or(g, x, strict, "the output is") for g, x in zip(found, by, strict=True))


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(outputs, Jacobian · v), by two backward passes."""
    _, xs = _as_tuple(inputs, "jvp", "inputs")
    vs = _vectors(v, xs, "jvp")
    with modes.enable_grad():
        xs = _leaves(xs, create_graph)
        many_out, ys = _evaluate(func, xs, "jvp")
        dummies = tuple(y.detach().new_zeros(y.shape).requires_grad_() for y in ys)
        first = grad(ys, xs, dummies, create_graph=True, allow_unused=True)
        first = tuple(
            _zeros_or(g, x, strict, "the output is") for g, x in zip(first, xs, strict=True)
        )
        found = _second(first, vs, dummies, create_graph, strict)
    outs = ys if create_graph else tuple(y.detach() for y in ys)
    return _packed(many_out, outs), _packed(many_out, found)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(output, vᵀ · Hessian) of a function with one number as output."""
    many, xs = _as_tuple(inputs, "vhp", "inputs")
    vs = _vectors(v, xs, "vhp")
    with modes.enable_grad():
        xs = _leaves(xs, create_graph)
        y = func(*xs)
        first = grad(y, xs, create_graph=True, allow_unused=True)
        first = tuple(
            _zeros_or(g, x, strict, "the output is") for g, x in zip(first, xs, strict=True)
        )
        found = _second(first, vs, xs, create_graph, strict)
    return (y if create_graph else y.detach()), _packed(many, found)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(output, Hessian · v) of a function with one number as output; the Hessian is symmetric, so
    this is vhp."""
    return vhp(func, inputs, v, create_graph, strict)
