"""`autograd.Function`: a user's own op with its own gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ember.core import dispatch, modes
from ember.core.array import full
from ember.core.dispatch import needs_grad
from ember.core.history import check_write, rebind, written
from ember.core.node import NO_EDGE, Node, Saved, edge_of
from ember.core.tensor import Tensor, connected, tensor_of
from ember.errors import check
from ember.kernel.array import Spec, contiguous_spec


class FunctionCtx:
    """What forward leaves for backward: attributes of any kind, and tensors by
    `save_for_backward`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._non_differentiable: tuple[Tensor, ...] = ()
        self._saved: list[Any] | None = None
        self._node: Node | None = None
        self._for_forward: tuple[Any, ...] = ()
        self._pushing = False  # whether jvp runs
        self._specs: tuple[Any, ...] = ()  # of the arguments that are tensors

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs, outputs or intermediate tensors (or None) for backward, guarded against
        in-place writes."""
        for tensor in tensors:
            check(
                tensor is None or isinstance(tensor, Tensor),
                TypeError,
                f"save_for_backward can only save variables, but got {type(tensor).__name__}: "
                "keep other things as attributes of ctx",
            )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`, which finds them in `saved_tensors`."""
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward writes in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for outputs without a gradient."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`. RuntimeError after the graph has been freed."""
        if self._pushing:
            return self._for_forward
        if self._saved is None:
            return self._to_save
        assert self._node is not None
        owner = self._node
        return tuple(None if s is None else s.unpack(owner) for s in self._saved)

    saved_variables = saved_tensors


def zeros(spec: Spec) -> Tensor:
    """Zeros of a shape."""
    return tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), 0))


class _FunctionNode(Node):
    """A recorded user function."""

    __slots__ = ("context", "function", "places")
    context: FunctionCtx
    function: Any
    places: tuple[int, ...]  # where among forward's results the tensors are, and how many there are

    def name(self) -> str:
        """The function's name with Backward."""
        return f"{self.function.__name__}Backward"

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Call the user's backward, and check what it returns."""
        context, function = self.context, self.function
        if context.materialize_grads:
            grads = [
                zeros(s) if g is None else g for g, s in zip(grads, self.out_specs, strict=True)
            ]
        given = [None] * self.places[-1]
        for place, grad in zip(self.places[:-1], grads, strict=True):
            given[place] = grad
        rule = function.vjp if function.vjp is not Function.vjp else function.backward
        found = rule(context, *given)
        results = found if isinstance(found, (tuple, list)) else (found,)
        count = len(self.edges)
        check(
            len(results) == count
            or (len(results) > count and all(r is None for r in results[count:])),
            RuntimeError,
            f"function {self.name()} returned an incorrect number of gradients (expected {count}, "
            f"got {len(results)})",
        )
        for result in results:
            check(
                result is None or isinstance(result, Tensor),
                RuntimeError,
                f"function {self.name()}: expected Variable or None (got {type(result).__name__})",
            )
        return tuple(
            None if target is None else result
            for result, (target, _) in zip(results, self.edges, strict=False)
        )

    def push(self, moved: list[Any]) -> list[Any] | None:
        """The tangents of the results by the user's jvp; None if there is none."""
        context, function = self.context, self.function
        if function.jvp is Function.jvp:
            return None
        context._pushing = True
        try:
            found = function.jvp(context, *self._tangents(moved))
        finally:
            context._pushing = False
        results = found if isinstance(found, (tuple, list)) else (found,)
        return [results[place] for place in self.places[:-1]]

    def _tangents(self, moved: list[Any]) -> list[Any]:
        """Zeros for tensors that do not move, if the function wants them."""
        if not self.context.materialize_grads:
            return moved
        return [
            zeros(spec) if t is None and spec is not None else t
            for t, spec in zip(moved, self.context._specs, strict=True)
        ]

    def release(self) -> None:
        """Forget saved tensors."""
        for saved in self.context._saved or ():
            if saved is not None:
                saved.release()


class Function:
    """A differentiable op of your own: `forward(ctx, *args)` and `backward(ctx, *grads)` as static
    methods.

    With `setup_context(ctx, inputs, output)`, forward takes no ctx. Call it through `apply`.

    >>> import ember as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = torch.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any):
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself: use .apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The op itself; recording is off inside."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what backward needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """A gradient (or None) for each argument of forward, given those of its outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of forward's results, given those of its arguments. Without it they follow
        from backward, if that can be differentiated."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """(results, out_dims) for a whole batch: `info` has batch_size and randomness, `in_dims`
        the batch's dim of each argument (None for those without)."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record it if an argument needs gradients."""
        if modes.state.levels:
            found = import_module("ember.autograd.batched_function").apply(cls, args, kwargs)
            if found is not NotImplemented:
                return found
        if kwargs:
            args = _positional(cls, args, kwargs)
        context = FunctionCtx()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and needs_grad(a) for a in args)
        recording = modes.state.grad and any(context.needs_input_grad)
        with modes.no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, args, output)
        return finished(cls, context, args, output, recording)


def _positional(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call with those given by name in their places among forward's, so that
    they have gradients too. TypeErrors as Python's."""
    from inspect import signature  # slow to import, and seldom needed

    takes_context = cls.setup_context is Function.setup_context
    bound = signature(cls.forward).bind(*(None,) * takes_context, *args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{cls.__name__}.apply() takes no keyword-only arguments: {', '.join(bound.kwargs)}"
        )
    return bound.args[takes_context:]


def finished(
    cls: Any, context: FunctionCtx, args: Sequence[Any], output: Any, recording: bool
) -> Any:
    """What forward returned, as results of a node where the call is recorded."""
    outputs = list(output) if isinstance(output, (tuple, list)) else [output]
    for dirty in context._dirty:
        if recording and any(dirty is a for a in args):
            check_write(dirty)
        written(dirty)
    tensors = [i for i, o in enumerate(outputs) if isinstance(o, Tensor)]
    node: _FunctionNode | None = None
    if recording:
        edges = tuple(
            edge_of(a) if needed else NO_EDGE
            for a, needed in zip(args, context.needs_input_grad, strict=True)
        )
        node = _new_node(cls, edges, tuple(outputs[i]._array.spec for i in tensors))
        node.context, node.function, node.places = context, cls, (*tensors, len(outputs))
        context._node = node
        context._specs = tuple(a._array.spec if isinstance(a, Tensor) else None for a in args)
    made: dict[int, Tensor] = {}
    for index, position in enumerate(tensors):
        given = outputs[position]
        if id(given) not in made:
            made[id(given)] = _output(given, args, context, node, index)
        outputs[position] = made[id(given)]
    if node is not None:
        own = {
            id(k): v for k, v in ((t, made.get(id(t))) for t in context._to_save if t is not None)
        }
        context._saved = [_saved(t, own.get(id(t)), args) for t in context._to_save]
        context._to_save = ()
    if isinstance(output, (tuple, list)):
        return tuple(outputs)
    return outputs[0]


_node_types: dict[Any, type] = {}


def _new_node(cls: Any, edges: Any, specs: Any) -> _FunctionNode:
    kind = _node_types.get(cls)
    if kind is None:
        kind = _node_types[cls] = type(f"{cls.__name__}Backward", (_FunctionNode,), {})
    return kind(edges, specs)


def _output(
    given: Tensor, args: Sequence[Any], context: FunctionCtx, node: Any, index: int
) -> Tensor:
    plain = any(given is t for t in context._non_differentiable)
    dirty = any(given is t for t in context._dirty)
    is_input = any(given is a for a in args)
    differentiable = (
        node is not None and not plain and dispatch.is_differentiable(given._array.spec.dtype)
    )
    if dirty and is_input:
        if differentiable:
            rebind(given, node, next(i for i, a in enumerate(args) if a is given), index)
        return given
    if is_input:
        given = tensor_of(given._array) if plain or node is None else connected(given._array, None)
    if differentiable:
        given._grad_fn, given._output_nr, given._requires_grad = node, index, True
    return given


def _saved(tensor: Any, output: Tensor | None, args: Sequence[Any]) -> Saved | None:
    if tensor is None:
        return None
    if output is not None and not any(tensor is a for a in args):
        saved = Saved(output, is_output=output._grad_fn is not None)
        saved.output_nr = output._output_nr
        return saved
    return Saved(tensor)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A backward that cannot be differentiated itself: a second derivative is a RuntimeError."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recording = modes.state.grad and any(isinstance(g, Tensor) and needs_grad(g) for g in grads)
        with modes.no_grad():
            found = function(ctx, *grads)
        if not recording:
            return found
        results = found if isinstance(found, tuple) else (found,)
        node = _Refusal((), tuple(r._array.spec for r in results if isinstance(r, Tensor)))
        sealed, index = [], 0
        for result in results:
            if isinstance(result, Tensor):
                result = connected(result._array, node, index)
                index += 1
            sealed.append(result)
        return tuple(sealed) if isinstance(found, tuple) else sealed[0]

    return wrapper


class _Refusal(Node):
    """Stands where a once_differentiable backward would have to be differentiated."""

    def name(self) -> str:
        """PyTorch's name."""
        return "Error"

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Refuse."""
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
