"""`grad`, `grad_and_value`, `vjp`, `jvp`, `linearize`: derivatives as functions of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ember.core import modes
from ember.core.dispatch import is_differentiable
from ember.core.node import Edge
from ember.core.tensor import Tensor
from ember.errors import check
from ember.func.forward import fitted, push
from ember.func.mapping import described
from ember.func.tape import GradFrame, gradients, outside, zeros_of
from ember.pytree import tree_flatten, tree_map, tree_unflatten

Argnums = int | tuple[int, ...]


class Taped:
    """A function run once on a tape: its results, and the edges where its inputs enter."""

    def __init__(self, func: Any, args: Any, kwargs: Any, which: Any, forward: bool = False):
        self.frame = GradFrame(forward)
        with self.frame:
            entered = tuple(self._entered(a) if i in which else a for i, a in enumerate(args))
            self.leaves = [v for i in which for v in tree_flatten(entered[i])[0]]
            self.edges: list[Edge] = [(v._grad_fn, 0) for v in self.leaves]
            self.result = func(*entered, **kwargs)
        self.recording = modes.state.grad
        self.batch = self.frame.batch

    def _entered(self, tree: Any) -> Any:
        return tree_map(self._input, tree)

    def _input(self, value: Any) -> Any:
        check(
            isinstance(value, Tensor),
            ValueError,
            f"Thing passed to transform API must be Tensor, got {type(value)}",
        )
        return self.frame.input(value)

    def out(self, tree: Any) -> Any:
        """Results as the outside sees them."""
        return tree_map(lambda v: outside(v, self.recording), tree)


def chosen(argnums: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions that `argnums` names. RuntimeError for what is none."""
    check(
        isinstance(argnums, (int, tuple)),
        RuntimeError,
        f"argnums must be int or Tuple[int, ...], got: {type(argnums)}",
    )
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    check(numbers, RuntimeError, "argnums must be non-empty")
    check(
        all(isinstance(n, int) for n in numbers),
        RuntimeError,
        f"argnums must be int or Tuple[int, ...], got: {argnums}",
    )
    for n in numbers:
        check(
            -len(args) <= n < len(args),
            RuntimeError,
            f"Got argnum={n}, but only {len(args)} positional inputs",
        )
    found = tuple(n % len(args) for n in numbers)
    check(
        len(set(found)) == len(found),
        RuntimeError,
        f"argnums elements must be unique, got {argnums}",
    )
    return found


def regrouped(flat: list[Any], args: tuple[Any, ...], argnums: Any, which: Any) -> Any:
    """Flat values in the structure of the arguments that `argnums` names."""
    made, rest = [], list(flat)
    for n in which:
        leaves, spec = tree_flatten(args[n])
        made.append(tree_unflatten(rest[: len(leaves)], spec))
        del rest[: len(leaves)]
    return tuple(made) if isinstance(argnums, tuple) else made[0]


def split_aux(found: Any, has_aux: bool, where: str) -> tuple[Any, Any]:
    """(result, aux) of a function that returns both; RuntimeError if it does not."""
    if not has_aux:
        return found, None
    check(
        isinstance(found, tuple) and len(found) == 2,
        RuntimeError,
        f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True",
    )
    return found[0], found[1]


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of a function with one number as result.

    >>> import ember as torch
    >>> torch.func.grad_and_value(lambda x: x ** 2)(torch.tensor(3.))
    (tensor(6.), tensor(9.))
    """
    where = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        which = chosen(argnums, args)
        taped = Taped(func, args, kwargs, which)
        value, aux = split_aux(taped.result, has_aux, where)
        check(
            isinstance(value, Tensor),
            RuntimeError,
            f"{where}: Expected f(*args) to return a Tensor, got {type(value)}",
        )
        check(
            value.ndim == 0,
            RuntimeError,
            f"{where}: Expected f(*args) to return a scalar Tensor, got tensor with {value.ndim} "
            "dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
        )
        check(
            is_differentiable(value.dtype) and not value.is_complex(),
            RuntimeError,
            f"grad can be implicitly created only for real scalar outputs but got {value.dtype}",
        )
        ones = zeros_of(value._array.spec, 1)
        found = gradients([value], taped.edges, [ones], taped.batch)
        grads = regrouped(found, args, argnums, which)
        result = taped.out(value)
        return (grads, (result, taped.out(aux))) if has_aux else (grads, result)

    return wrapped


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of a function with one number as result, by the
    arguments that `argnums` names; with has_aux, (gradient, aux) of one that returns (value, aux).

    >>> import ember as torch
    >>> torch.func.grad(torch.func.grad(lambda x: x ** 3))(torch.tensor(2.))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        grads, rest = both(*args, **kwargs)
        return (grads, rest[1]) if has_aux else grads

    return wrapped


def checked_outputs(tree: Any, where: str) -> tuple[list[Any], Any]:
    """The leaves of a function's results; RuntimeError unless they are tensors."""
    leaves, spec = tree_flatten(tree)
    check(
        leaves and tree is not None,
        RuntimeError,
        lambda: (
            f"{where}: Expected f to be a function that has non-empty output (got output = "
            f"{leaves})"
        ),
    )
    for leaf in leaves:
        check(
            isinstance(leaf, Tensor),
            RuntimeError,
            f"{where}: expected f(*primals) to return only tensors, got unsupported type "
            f"{type(leaf)}",
        )
    return leaves, spec


def differentiable_results(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of results to differentiate backwards; RuntimeError for integers."""
    leaves, spec = checked_outputs(tree, "vjp(f, *primals)")
    for leaf in leaves:
        check(
            is_differentiable(leaf.dtype),
            RuntimeError,
            "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
            f"with dtype {leaf.dtype}",
        )
    return leaves, spec


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), vjp_fn): vjp_fn takes cotangents in the structure of the results and gives
    the gradients of the results, weighted by them; with has_aux, (result, vjp_fn, aux).

    >>> import ember as torch
    >>> value, vjp_fn = torch.func.vjp(torch.sin, torch.zeros(2))
    >>> vjp_fn(torch.ones(2))
    (tensor([1., 1.]),)
    """
    taped = Taped(func, primals, {}, range(len(primals)))
    result, aux = split_aux(taped.result, has_aux, "vjp(f, *primals)")
    outputs, spec = differentiable_results(result)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        given, structure = tree_flatten(cotangents)
        check(
            structure == spec,
            RuntimeError,
            lambda: (
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {described(cotangents)}, primal output: "
                f"{described(result)}"
            ),
        )
        _check_shapes(given, outputs)
        found = gradients(outputs, taped.edges, given, taped.batch)
        return regrouped(found, primals, tuple(primals), range(len(primals)))

    shown = taped.out(result)
    return (shown, vjp_fn, taped.out(aux)) if has_aux else (shown, vjp_fn)


def _check_shapes(given: list[Any], outputs: list[Any]) -> None:
    for place, (g, o) in enumerate(zip(given, outputs, strict=True)):
        check(
            g.shape == o.shape,
            RuntimeError,
            f"Mismatch in shape: grad_output[{place}] has a shape of {g.shape} and "
            f"output[{place}] has a shape of {o.shape}.",
        )


def _check_tangents(primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    where = "jvp(f, primals, tangents)"
    check(
        isinstance(primals, tuple),
        RuntimeError,
        f"{where}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).",
    )
    flat, spec = tree_flatten(primals)
    moved, structure = tree_flatten(tangents)
    check(
        spec == structure,
        RuntimeError,
        lambda: (
            f"{where}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {described(primals)} and tangents with structure {described(tangents)}"
        ),
    )
    check(flat, RuntimeError, f"{where}: Expected primals to contain at least one Tensor.")
    for name, leaves in (("primals", flat), ("tangents", moved)):
        for leaf in leaves:
            check(
                isinstance(leaf, Tensor),
                RuntimeError,
                f"{where}: Expected {name} to only contain Tensors, got {type(leaf)}",
            )
    for p, t in zip(flat, moved, strict=True):
        check_tangent(p, t)
    return flat, moved


def check_tangent(primal: Any, tangent: Any) -> None:
    """RuntimeError unless a tangent has its primal's shape."""
    check(
        primal.shape == tangent.shape,
        RuntimeError,
        "Trying to set a forward gradient that has a different size than that of the original "
        f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the given "
        f"forward gradient is of size {list(tangent.shape)}.",
    )


def moved_outputs(taped: Taped, outputs: list[Any], tangents: list[Any]) -> list[Any]:
    """The tangents of results, zeros where nothing moves them."""
    seeds = {
        edge: fitted(t, edge[0].out_specs[0]) for edge, t in zip(taped.edges, tangents, strict=True)
    }
    found = push(outputs, seeds, taped.batch)
    return [
        zeros_of(o._array.spec) if t is None else t for o, t in zip(outputs, found, strict=True)
    ]


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """(func(*primals), how that moves when primals move along tangents); with has_aux, the aux
    third.

    >>> import ember as torch
    >>> torch.func.jvp(lambda x: x ** 2, (torch.tensor(3.),), (torch.tensor(1.),))
    (tensor(9.), tensor(6.))
    """
    _, moved = _check_tangents(primals, tangents)
    taped = Taped(func, primals, {}, range(len(primals)), forward=True)
    result, aux = split_aux(taped.result, has_aux, "jvp(f, primals, tangents)")
    outputs, spec = checked_outputs(result, "jvp(f, primals, tangents)")
    found = tree_unflatten(moved_outputs(taped, outputs, moved), spec)
    shown = taped.out(result)
    return (shown, found, taped.out(aux)) if has_aux else (shown, found)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), jvp_fn): jvp_fn(*tangents) is the jvp there, without running func again.

    >>> import ember as torch
    >>> value, jvp_fn = torch.func.linearize(torch.exp, torch.zeros(2))
    >>> jvp_fn(torch.tensor([1., 2.]))
    tensor([1., 2.])
    """
    taped = Taped(func, primals, {}, range(len(primals)), forward=True)
    outputs, spec = checked_outputs(taped.result, "linearize(f, *primals)")
    flat, structure = tree_flatten(primals)

    def jvp_fn(*tangents: Any) -> Any:
        moved, given = tree_flatten(tangents)
        check(
            given == structure,
            RuntimeError,
            lambda: (
                "Expected the tangents to have the structure of the primals: "
                f"{described(tangents)} is not {described(primals)}"
            ),
        )
        for place, (p, t) in enumerate(zip(flat, moved, strict=True)):
            check(
                p.shape == t.shape,
                RuntimeError,
                f"tangent:{place} with shape {t.shape} in flattened pytree doesn't match the "
                f"shape {p.shape} of the corresponding primal.",
            )
        return tree_unflatten(moved_outputs(taped, outputs, moved), spec)

    return taped.out(taped.result), jvp_fn
