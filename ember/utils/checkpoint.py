"""`checkpoint`: run a part of a model without keeping its intermediate values, and run it again
in backward.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ember.autograd import backward
from ember.autograd.function import Function
from ember.autograd.graph import saved_tensors_hooks
from ember.core import modes
from ember.core.generator import default_of
from ember.core.tensor import Tensor
from ember.device import CPU
from ember.device import device as Device
from ember.errors import check
from ember.pytree import tree_leaves


class CheckpointError(RuntimeError):
    """The second run of a checkpointed part was not like the first."""


class _Surroundings:
    """The random and autocast states that the second run has to find."""

    def __init__(self, preserve_rng_state: bool, args: Any):
        places = {t.device for t in args if isinstance(t, Tensor)}
        self.autocast = modes.state.autocast
        self.states = []
        if preserve_rng_state:
            self.states = [
                (g, g.get_state())
                for g in (default_of(d) for d in {CPU, *places} if d.type != "meta")
            ]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """The block of the second run."""
        now = [(g, g.get_state()) for g, _ in self.states]
        before = modes.state.autocast
        for generator, state in self.states:
            generator.set_state(state)
        modes.state.autocast = self.autocast
        modes.SPECIAL[0] += 1
        try:
            yield
        finally:
            modes.SPECIAL[0] -= 1
            modes.state.autocast = before
            for generator, state in now:
                generator.set_state(state)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs that hold tensors among the arguments, and the states of their random numbers."""
    places = [t.device for t in tree_leaves(args) if isinstance(t, Tensor)]
    indices = sorted({d.index or 0 for d in places if d.type == "cuda"})
    return indices, [default_of(Device("cuda", i)).get_state() for i in indices]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Let the random numbers of GPUs continue from states of `get_device_states`."""
    for index, state in zip(devices, states, strict=True):
        default_of(Device(device_type or "cuda", index)).set_state(state)


class CheckpointFunction(Function):
    """The reentrant form: a function whose backward runs the part again and goes backward
    through it.
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run without recording."""
        ctx.run_function, ctx.surroundings = run_function, _Surroundings(preserve_rng_state, args)
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.where = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[a for a in args if isinstance(a, Tensor)])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run again with recording, and pass the gradients on."""
        inputs = list(ctx.others)
        for position, tensor in zip(ctx.where, ctx.saved_tensors, strict=True):
            inputs[position] = tensor.detach().requires_grad_(tensor.requires_grad)
        with modes.enable_grad(), ctx.surroundings.restored():
            found = ctx.run_function(*inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        live = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        check(
            live,
            RuntimeError,
            "none of output has requires_grad=True, this checkpoint() is not necessary",
        )
        backward([o for o, _ in live], [g for _, g in live])
        return (None, None, *[i.grad if isinstance(i, Tensor) else None for i in inputs])


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args)`, whose intermediate values are computed again in backward instead of being
    kept.

    use_reentrant=False works with every kind of argument, nested containers and `autograd.grad`.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is "
            "recommended.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        check(not kwargs, ValueError, f"Unexpected keyword arguments: {','.join(kwargs)}")
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None",
                UserWarning,
                stacklevel=2,
            )
        return CheckpointFunction.apply(function, preserve, *args)
    with _Recomputed(function, args, kwargs, _Surroundings(preserve, args), context_fn):
        return function(*args, **kwargs)


class _Recomputed(saved_tensors_hooks):
    """The form without reentry: what would be saved is a place, filled by one second run when
    backward asks.
    """

    def __init__(
        self, function: Any, args: Any, kwargs: Any, surroundings: _Surroundings, context_fn: Any
    ):
        self.function, self.args, self.kwargs, self.surroundings = (
            function,
            args,
            kwargs,
            surroundings,
        )
        self.contexts = context_fn() if context_fn is not None else None
        self.count = 0
        self.values: dict[int, Tensor] = {}
        self.specs: list[Any] = []

    def __enter__(self) -> None:
        if self.contexts is not None:
            self.contexts[0].__enter__()
        super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if self.contexts is not None:
            self.contexts[0].__exit__(*exc)

    def pack_hook(self, tensor: Tensor) -> int:
        """The place of a tensor that would be kept."""
        place = self.count
        self.count += 1
        self.specs.append(tensor.spec)
        return place

    def unpack_hook(self, place: int) -> Tensor:
        """The tensor of a place, after a second run."""
        if place not in self.values:
            self._run_again()
        check(
            place in self.values,
            CheckpointError,
            "torch.utils.checkpoint: A different number of tensors was saved during the original "
            "forward and "
            f"recomputation.\nNumber of tensors saved during forward: {self.count}\nNumber of "
            "tensors saved during "
            f"recomputation: {len(self.values)}.",
        )
        return self.values.pop(place)

    def _run_again(self) -> None:
        found: list[Tensor] = []

        def keep(tensor: Tensor) -> int:
            found.append(tensor)
            return len(found) - 1

        inner = saved_tensors_hooks(keep, lambda place: found[place])
        again = self.contexts[1] if self.contexts is not None else contextlib.nullcontext()
        args = [
            a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a
            for a in self.args
        ]
        with modes.enable_grad(), self.surroundings.restored(), again, inner:
            self.function(*args, **self.kwargs)
        for place, (tensor, spec) in enumerate(zip(found, self.specs, strict=False)):
            check(
                tensor.spec is spec,
                CheckpointError,
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than "
                f"during the forward pass: {spec} then, {tensor.spec} now",
            )
            self.values[place] = tensor


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of modules in `segments` parts, each checkpointed but the last."""
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(modules) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for module in modules[start:end]:
                x = module(x)
            return x

        return forward

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, **kwargs)
    return part(end, len(modules))(input)
