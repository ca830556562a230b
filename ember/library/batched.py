"""Operators of programs inside `vmap`: by their rule for batches, or one element after another."""

from __future__ import annotations

from typing import Any

from ember.autograd.batched_function import apply
from ember.autograd.function import Function
from ember.core.lifting import frame_of
from ember.core.tensor import Tensor
from ember.ops.joining import stack
from ember.pytree import tree_flatten, tree_unflatten


def run(operator: Any, values: dict[str, Any]) -> Any:
    """What an operator gives for bound arguments that belong to a batch; NotImplemented where none
    does."""
    leaves, spec = tree_flatten(values)
    if frame_of(leaves) is None:
        return NotImplemented
    boxed: list[Any] = []
    outputs = apply(_function_of(operator, spec, boxed), tuple(leaves), {})
    return tree_unflatten(list(outputs), boxed[0])


def _function_of(operator: Any, spec: Any, boxed: list[Any]) -> Any:
    """The operator as an autograd function of its arguments' leaves; the structure of its results
    goes to `boxed`."""

    def flat(result: Any) -> tuple[Any, ...]:
        outputs, boxed[:] = tree_flatten(result)[0], [tree_flatten(result)[1]]
        return tuple(outputs)

    def split(leaves: Any) -> tuple[Any, Any]:
        args, keywords = operator.schema.split(tree_unflatten(list(leaves), spec))
        return args, keywords

    class Batched(Function):
        """The node of an operator inside vmap."""

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.given, ctx.keyword_only = split(inputs)
            shaped = tree_unflatten(list(output), boxed[0])
            operator.save(ctx, shaped)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return operator.gradients(ctx, tree_unflatten(list(grads), boxed[0]))

        @staticmethod
        def vmap(info: Any, in_dims: Any, *leaves: Any) -> Any:
            rule = operator.kernels.get("FuncTorchBatched")
            if rule is not None:
                args, keywords = split(leaves)
                dims, _ = split(in_dims)
                result, out_dims = rule(info, tuple(dims), *args, **keywords)
                return flat(result), tuple(tree_flatten(out_dims)[0])
            rows = []
            for number in range(info.batch_size):
                own = [v if d is None else v[number] for v, d in zip(leaves, in_dims, strict=True)]
                args, keywords = split(own)
                rows.append(flat(operator(*args, **keywords)))
            columns = list(zip(*rows, strict=True))
            made = tuple(stack(c) if isinstance(c[0], Tensor) else c[0] for c in columns)
            return made, tuple(0 if isinstance(m, Tensor) else None for m in made)

    return Batched
