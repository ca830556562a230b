"""`backward` and `grad`: the two ways into the gradient engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import engine
from ember.core.array import full
from ember.core.dispatch import needs_grad
from ember.core.node import edge_of
from ember.core.registry import install_method
from ember.core.tensor import Tensor, tensor_of
from ember.errors import check
from ember.kernel.array import contiguous_spec


def _sequence(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) or value is None else tuple(value)


def _seeds(outputs: Sequence[Tensor], grads: Sequence[Any]) -> list[Tensor]:
    check(
        len(outputs) == len(grads),
        RuntimeError,
        f"got {len(outputs)} tensors and {len(grads)} gradients",
    )
    made = []
    for out, grad in zip(outputs, grads, strict=True):
        spec = out._array.spec
        if grad is None:
            check(
                spec.numel == 1,
                RuntimeError,
                "grad can be implicitly created only for scalar outputs: give backward() a "
                f"gradient of the output's shape {list(spec.shape)}, or reduce it to one number "
                "first",
            )
            check(
                spec.dtype.is_floating_point or not needs_grad(out),
                RuntimeError,
                f"grad can be implicitly created only for real scalar outputs but got {spec.dtype}",
            )
            grad = tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), 1))
        check(
            isinstance(grad, Tensor),
            TypeError,
            f"gradients can be either Tensors or None, but got {type(grad).__name__}",
        )
        check(
            tuple(grad.shape) == spec.shape,
            RuntimeError,
            lambda g=grad, s=spec: (
                f"Mismatch in shape: grad_output[0] has a shape of {g.shape} and output[0] has a "
                f"shape of torch.Size({list(s.shape)})."
            ),
        )
        made.append(grad)
    return made


def _roots(outputs: Sequence[Tensor]) -> list[Any]:
    roots = []
    for position, out in enumerate(outputs):
        check(
            needs_grad(out),
            RuntimeError,
            f"element {position} of tensors does not require grad and does not have a grad_fn",
        )
        roots.append(edge_of(out))
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
    outputs = _sequence(tensors)
    grads = _sequence(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
    targets = None
    if inputs is not None:
        targets = _sequence(inputs)
        check(targets, RuntimeError, "`inputs` argument to `backward()` cannot be empty.")
        for target in targets:
            check(
                target.requires_grad,
                RuntimeError,
                "One of the differentiated Tensors does not require grad",
            )
        for target in targets:
            target.retain_grad()
    roots = _roots(outputs)
    engine.run(
        roots,
        _seeds(outputs, grads),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=None if targets is None else [edge_of(t) for t in targets],
        accumulate=True,
    )


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
    check(
        not is_grads_batched,
        NotImplementedError,
        "grad(): is_grads_batched is not supported yet: loop over the batch",
    )
    outs, wanted = _sequence(outputs), _sequence(inputs)
    grads = _sequence(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    check(
        not (materialize_grads and allow_unused is False),
        ValueError,
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
        "allow_unused=False.",
    )
    for target in wanted:
        check(
            needs_grad(target),
            RuntimeError,
            "One of the differentiated Tensors does not require grad",
        )
    found = engine.run(
        _roots(outs),
        _seeds(outs, grads),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=[edge_of(t) for t in wanted],
        accumulate=False,
    )
    for position, (value, target) in enumerate(zip(found, wanted, strict=True)):
        if value is None and materialize_grads:
            spec = target._array.spec
            found[position] = tensor_of(
                full(contiguous_spec(spec.shape, spec.dtype, spec.device), 0)
            )
        elif value is None:
            check(
                allow_unused,
                RuntimeError,
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior.",
            )
        elif not create_graph and value._requires_grad:
            found[position] = value.detach()
    return tuple(found)


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
