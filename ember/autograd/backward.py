"""`backward` and `grad`: the two ways into the gradient engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ember.autograd.graph import GradientEdge
from ember.core import engine, modes
from ember.core.array import full
from ember.core.dispatch import needs_grad, overridden
from ember.core.node import edge_of
from ember.core.registry import install_method
from ember.core.tensor import Tensor, tensor_of
from ember.errors import check
from ember.kernel.array import Spec, contiguous_spec
from ember.source_lines import warn


def _sequence(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (Tensor, GradientEdge)) or value is None else tuple(value)


def _edge(value: Any) -> Any:
    """Where a gradient for a tensor, or for a gradient edge, goes."""
    return (value.node, value.output_nr) if isinstance(value, GradientEdge) else edge_of(value)


def _spec(value: Any) -> Spec:
    if isinstance(value, GradientEdge):
        return value.node.out_specs[value.output_nr]
    return value._array.spec  # type: ignore[no-any-return]


def _is_recorded(value: Any) -> bool:
    return isinstance(value, GradientEdge) or needs_grad(value)


def _seeds(outputs: Sequence[Any], grads: Sequence[Any]) -> list[Tensor]:
    check(
        len(outputs) == len(grads),
        RuntimeError,
        f"got {len(outputs)} tensors and {len(grads)} gradients",
    )
    made: list[Tensor] = []
    for position, (out, grad) in enumerate(zip(outputs, grads, strict=True)):
        spec = _spec(out)
        if grad is None:
            check(
                spec.numel == 1,
                RuntimeError,
                "grad can be implicitly created only for scalar outputs: give backward() a "
                f"gradient of the output's shape {list(spec.shape)}, or reduce it to one number "
                "first",
            )
            check(
                spec.dtype.is_floating_point or not _is_recorded(out),
                RuntimeError,
                f"grad can be implicitly created only for real scalar outputs but got {spec.dtype}",
            )
            made.append(_one(spec))
            continue
        check(
            isinstance(grad, Tensor),
            TypeError,
            f"gradients can be either Tensors or None, but got {type(grad).__name__}",
        )
        if grad._array.spec is not spec:
            check_seed(grad._array.spec, spec, position)
        made.append(grad if grad._array.spec.dtype is spec.dtype else grad.to(spec.dtype))
    return made


def _one(spec: Spec) -> Tensor:
    """The gradient of a number by itself."""
    return tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), 1))


def check_seed(grad: Spec, out: Spec, position: int) -> None:
    """RuntimeError unless a gradient fits the output that it is given for."""
    at = f"grad_output[{position}]"
    check(
        grad.shape == out.shape,
        RuntimeError,
        f"Mismatch in shape: {at} has a shape of torch.Size({list(grad.shape)}) and "
        f"output[{position}] has a shape of torch.Size({list(out.shape)}).",
    )
    check(
        grad.dtype is out.dtype or not (grad.dtype.is_complex or out.dtype.is_complex),
        RuntimeError,
        "For complex Tensors, both grad_output and output are required to have the same dtype. "
        f"Mismatch in dtype: {at} has a dtype of {grad.dtype} and output[{position}] has a dtype "
        f"of {out.dtype}.",
    )
    check(
        grad.device is out.device,
        RuntimeError,
        f"invalid gradient at index {position} - expected device {out.device} but got "
        f"{grad.device}: move it with .to('{out.device}')",
    )


def _roots(outputs: Sequence[Any]) -> list[Any]:
    roots = []
    for position, out in enumerate(outputs):
        if not _is_recorded(out):
            raise RuntimeError(
                f"element {position} of tensors does not require grad and does not have a grad_fn"
            )
        roots.append(_edge(out))
    return roots


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add to `.grad` of every leaf (or of `inputs`) the gradient of the sum of `tensors`, weighted
    by `grad_tensors`.

    The graph is freed unless retain_graph (default: create_graph); create_graph records this pass
    itself.
    """
    check(
        not modes.state.levels,
        RuntimeError,
        "backward() called inside a functorch transform. This is not supported, please use "
        "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
        "transforms.",
    )
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        check(
            grad_tensors is None,
            RuntimeError,
            "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
            "`backward()`. Please only use `grad_tensors`.",
        )
        grad_tensors = grad_variables
    outputs = _sequence(tensors)
    grads = _sequence(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
    targets = None
    if inputs is not None:
        targets = _sequence(inputs)
        check(targets, RuntimeError, "`inputs` argument to `backward()` cannot be empty.")
        for target in targets:
            check(
                _is_recorded(target),
                RuntimeError,
                "One of the differentiated Tensors does not require grad",
            )
        for target in targets:
            if isinstance(target, Tensor):
                target.retain_grad()
    roots = _roots(outputs)
    engine.run(
        roots,
        _seeds(outputs, grads),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=None if targets is None else [_edge(t) for t in targets],
        accumulate=True,
    )


GRAD_KEYWORDS = (
    "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
    "is_grads_batched", "materialize_grads",
)  # fmt: skip


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of `outputs` by each of `inputs`, leaving every `.grad` alone.

    RuntimeError for an input that the outputs do not depend on, unless allow_unused (then None) or
    materialize_grads (then zeros).
    """
    if modes.state.forward:  # gradients of dual tensors have tangents too
        retain_graph, create_graph = True, True
    outs, wanted = _sequence(outputs), _sequence(inputs)
    if modes.SPECIAL[0]:
        given = (grad_outputs, retain_graph, create_graph, only_inputs)
        given += (allow_unused, is_grads_batched, materialize_grads)
        keywords = dict(zip(GRAD_KEYWORDS, given, strict=True))
        found = overridden(grad, (outputs, inputs), keywords)
        if found is not NotImplemented:
            return found
    if is_grads_batched:
        rest = (retain_graph, create_graph, only_inputs, allow_unused, False, materialize_grads)
        return _for_each(outputs, inputs, grad_outputs, rest)
    grads = _sequence(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    check(
        not (materialize_grads and allow_unused is False),
        ValueError,
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
        "allow_unused=False.",
    )
    for target in wanted:
        check(
            _is_recorded(target),
            RuntimeError,
            "One of the differentiated Tensors does not require grad",
        )
    found = engine.run(
        _roots(outs),
        _seeds(outs, grads),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=[_edge(t) for t in wanted],
        accumulate=False,
    )
    _fill(found, wanted, create_graph, bool(allow_unused), materialize_grads)
    return tuple(found)


def _fill(
    found: list[Any], wanted: Any, create_graph: bool, allow_unused: bool, materialize: bool
) -> None:
    """Zeros for missing gradients, or RuntimeError; no history unless asked for."""
    for position, (value, target) in enumerate(zip(found, wanted, strict=True)):
        if value is None and materialize:
            spec = _spec(target)
            found[position] = tensor_of(
                full(contiguous_spec(spec.shape, spec.dtype, spec.device), 0)
            )
        elif value is None:
            check(
                allow_unused,
                RuntimeError,
                f"The differentiated Tensor at index {position} appears to not have been used in "
                "the graph. Set allow_unused=True if this is the desired behavior.",
            )
        elif not create_graph and value._requires_grad:
            found[position] = value.detach()


def _for_each(outputs: Any, inputs: Any, grad_outputs: Any, rest: Any) -> tuple[Any, ...]:
    """`grad` for each of a batch of `grad_outputs`, all at once."""
    vmap = import_module("ember.func").vmap
    used: list[bool] = []

    def one(grads: Any) -> Any:
        found = grad(outputs, inputs, grads, *rest)
        used[:] = [f is not None for f in found]
        return tuple(f for f in found if f is not None)

    found = iter(vmap(one, randomness="same")(_sequence(grad_outputs)))
    return tuple(next(found) if is_used else None for is_used in used)


def _backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to `.grad` of every leaf the gradient of this tensor, weighted by `gradient`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_backward.__name__ = "backward"
install_method("backward", _backward)
