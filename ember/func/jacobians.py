"""`jacrev`, `jacfwd`, `hessian`: whole matrices of derivatives, all rows or columns at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ember.core.array import full
from ember.core.tensor import tensor_of
from ember.errors import check
from ember.func.gradients import (
    Argnums,
    Taped,
    checked_outputs,
    chosen,
    differentiable_results,
    moved_outputs,
    regrouped,
    split_aux,
)
from ember.func.mapping import vmap
from ember.func.tape import gradients
from ember.kernel.array import contiguous_spec
from ember.pytree import tree_unflatten


def unit_vectors(values: list[Any]) -> tuple[Any, ...]:
    """For each tensor, a batch of tensors of its shape: over all batches together, each element of
    each tensor is 1 once."""
    total = sum(v.numel() for v in values)
    made, start = [], 0
    for value in values:
        spec = value._array.spec
        count = spec.numel
        flat: Any = tensor_of(full(contiguous_spec((total, count), spec.dtype, spec.device), 0))
        flat[start : start + count].diagonal().fill_(1)
        made.append(flat.view((total, *spec.shape)))
        start += count
    return tuple(made)


def check_real(name: str, outputs: list[Any], inputs: list[Any]) -> None:
    """RuntimeError for complex numbers, of which a Jacobian would tell half."""
    for what, values in (("inputs", inputs), ("outputs", outputs)):
        for place, value in enumerate(values):
            check(
                not value.is_complex(),
                RuntimeError,
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"input idx: {place}",
            )


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode: the derivative of each result element by each argument
    element, of shape (*result, *argument). `chunk_size` rows are computed at once.

    >>> import ember as torch
    >>> torch.func.jacrev(lambda x: x ** 2)(torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check(
        chunk_size is None or chunk_size > 0,
        ValueError,
        "jacrev: `chunk_size` should be greater than 0.",
    )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        which = chosen(argnums, args)
        taped = Taped(func, args, kwargs, which)
        result, aux = split_aux(taped.result, has_aux, "vjp(f, *primals)")
        outputs, spec = differentiable_results(result)
        check_real("jacrev", outputs, taped.leaves)

        def row(*weights: Any) -> tuple[Any, ...]:
            return tuple(gradients(outputs, taped.edges, weights, taped.batch))

        basis = unit_vectors(outputs)
        found = vmap(row, chunk_size=chunk_size, randomness="same")(*basis)
        counts = [o.numel() for o in outputs]
        made = []
        pieces = [part.split(counts, 0) for part in found]
        for place, out in enumerate(outputs):
            flat = [
                p[place].reshape((*out.shape, *leaf.shape))
                for p, leaf in zip(pieces, taped.leaves, strict=True)
            ]
            made.append(regrouped(flat, args, argnums, which))
        jacobian = tree_unflatten(made, spec)
        return (jacobian, taped.out(aux)) if has_aux else jacobian

    return wrapped


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The Jacobian by forward mode: as `jacrev`, a column at a time instead of a row, which is
    less work where results have more elements than arguments.

    >>> import ember as torch
    >>> torch.func.jacfwd(lambda x: x ** 2)(torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        which = chosen(argnums, args)
        taped = Taped(func, args, kwargs, which, forward=True)
        result, aux = split_aux(taped.result, has_aux, "jvp(f, primals, tangents)")
        outputs, spec = checked_outputs(result, "jvp(f, primals, tangents)")
        check_real("jacfwd", outputs, taped.leaves)

        def column(*tangents: Any) -> tuple[Any, ...]:
            return tuple(moved_outputs(taped, outputs, list(tangents)))

        basis = unit_vectors(taped.leaves)
        found = vmap(column, out_dims=-1, randomness=randomness)(*basis)
        counts = [leaf.numel() for leaf in taped.leaves]
        made = []
        for out, part in zip(outputs, found, strict=True):
            flat = [
                p.reshape((*out.shape, *leaf.shape))
                for p, leaf in zip(part.split(counts, -1), taped.leaves, strict=True)
            ]
            made.append(regrouped(flat, args, argnums, which))
        jacobian = tree_unflatten(made, spec)
        return (jacobian, taped.out(aux)) if has_aux else jacobian

    return wrapped


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The second derivatives of a function: forward mode over reverse mode.

    >>> import ember as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
