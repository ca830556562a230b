"""User functions inside `vmap`: by their own `vmap` rule, or by one made from their methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ember.autograd.function import Function, FunctionCtx, finished
from ember.core import modes
from ember.core.dispatch import needs_grad
from ember.core.levels import Below
from ember.core.lifting import frame_of, lift
from ember.core.tensor import Tensor
from ember.errors import check
from ember.func.batch_rules import spread
from ember.func.frames import BatchFrame
from ember.func.tape import level_of
from ember.pytree import tree_flatten, tree_map, tree_unflatten

MORE = " For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a `vmap` rule is told of the vmap."""

    batch_size: int
    randomness: str


def apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a user function gives inside a transform; NotImplemented where none of its arguments is
    of a batch, and it runs as always."""
    check(
        cls.setup_context is not Function.setup_context,
        RuntimeError,
        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
        "...), it must override the setup_context staticmethod." + MORE,
    )
    frame = frame_of(tree_flatten(args)[0])
    if frame is None:
        return NotImplemented
    has_rule = cls.vmap is not Function.vmap
    check(
        not (has_rule and cls.generate_vmap_rule),
        RuntimeError,
        f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
        "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
        "overridden vmap staticmethod to avoid ambiguity." + MORE,
    )
    check(
        has_rule or cls.generate_vmap_rule,
        RuntimeError,
        f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
        "override and implement the vmap staticmethod or set generate_vmap_rule=True." + MORE,
    )
    args = tree_map(lambda a: lift(a, frame), args)
    output = _by_rule(cls, frame, args) if has_rule else _by_methods(cls, frame, args)
    leaves = [a for a in args if isinstance(a, Tensor)]
    if not (modes.state.grad and any(map(needs_grad, leaves))):
        return output
    context = FunctionCtx()
    context.needs_input_grad = tuple(isinstance(a, Tensor) and needs_grad(a) for a in args)
    with modes.no_grad():
        cls.setup_context(context, args, output)
    return finished(cls, context, args, output, True)


def _below(args: Any) -> tuple[Any, Any]:
    """Arguments as whole batches, and where each has the batch's dim."""
    whole = tree_map(lambda a: a._array.value if isinstance(a, Tensor) else a, args)
    dims = tree_map(lambda a: 0 if isinstance(a, Tensor) and a._array.batched else None, args)
    return whole, dims


def _by_rule(cls: Any, frame: BatchFrame, args: tuple[Any, ...]) -> Any:
    whole, dims = _below(args)
    with Below(frame):
        output, out_dims = cls.vmap(VmapInfo(frame.size, frame.randomness), dims, *whole)
        leaves, spec = tree_flatten(output)
        places = tree_flatten(out_dims)[0]
        places = places * len(leaves) if len(places) == 1 else places
        check(
            len(places) == len(leaves),
            RuntimeError,
            f"{cls.__name__}.vmap returned {len(leaves)} outputs and {len(places)} out_dims",
        )
        made = []
        for leaf, place in zip(leaves, places, strict=True):
            moved = leaf.movedim(place, 0) if place else leaf
            made.append(frame.wrap(moved, place is not None) if isinstance(leaf, Tensor) else leaf)
    return tree_unflatten(made, spec)


class _Inside:
    """A block inside a new vmap like the one that a function was called in."""

    def __init__(self, size: int, randomness: str):
        self.frame = BatchFrame(size, randomness)

    def __enter__(self) -> BatchFrame:
        self.frame.enter()
        return self.frame

    def __exit__(self, *exc: object) -> None:
        self.frame.leave()


def _by_methods(cls: Any, frame: BatchFrame, args: tuple[Any, ...]) -> Any:
    """The function of whole batches whose methods are those of `cls` inside a vmap."""
    whole, dims = _below(args)
    kind = _batched_kind(cls, dims, frame.size, frame.randomness)
    with Below(frame):
        output = kind.apply(*whole)
    return tree_map(lambda o: frame.wrap(o) if isinstance(o, Tensor) else o, output)


def _batched_kind(cls: Any, dims: Sequence[Any], size: int, randomness: str) -> Any:
    def wrapped(frame: BatchFrame, values: Sequence[Any], flags: Sequence[Any]) -> list[Any]:
        return [
            frame.wrap(v) if f and isinstance(v, Tensor) else v
            for v, f in zip(values, flags, strict=True)
        ]

    def whole(frame: BatchFrame, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if level_of(value) is frame:
            return spread(value._array.value, value._array.batched, size)
        return spread(value, False, size)

    is_batched = [d is not None for d in dims]

    class Batched(Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            with _Inside(size, randomness) as frame:
                output = cls.forward(*wrapped(frame, values, is_batched))
            return tree_map(lambda o: whole(frame, o), output)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            inner = ctx.inner = FunctionCtx()
            inner.needs_input_grad = ctx.needs_input_grad
            outputs = output if isinstance(output, tuple) else (output,)
            with _Inside(size, randomness) as frame:
                made = tuple(wrapped(frame, outputs, [True] * len(outputs)))
                given = tuple(wrapped(frame, inputs, is_batched))
                cls.setup_context(inner, given, made if isinstance(output, tuple) else made[0])
            kept = [t is not None and level_of(t) is frame for t in inner._to_save]
            ctx.kept = [k and t._array.batched for k, t in zip(kept, inner._to_save, strict=True)]
            ctx.save_for_backward(
                *(t._array.value if k else t for k, t in zip(kept, inner._to_save, strict=True))
            )
            ctx.set_materialize_grads(inner.materialize_grads)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            rule = cls.vjp if cls.vjp is not Function.vjp else cls.backward
            with _Inside(size, randomness) as frame:
                ctx.inner._to_save = tuple(wrapped(frame, ctx.saved_tensors, ctx.kept))
                found = rule(ctx.inner, *wrapped(frame, grads, [True] * len(grads)))
            found = found if isinstance(found, tuple) else (found,)
            made = [whole(frame, f) for f in found]
            return tuple(
                m.sum(0) if isinstance(m, Tensor) and not b else m
                for m, b in zip(made, is_batched, strict=True)
            )

    Batched.__name__ = Batched.__qualname__ = f"Vmapped{cls.__name__}"
    return Batched
