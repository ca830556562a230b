"""Modules under transforms: calls with other parameters, ensembles as one module, batch norm
without statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ember.core.levels import LevelArray
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.batchnorm import _BatchNorm
from ember.nn.utils.stateless import call_with as functional_call
from ember.ops.joining import stack

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
]


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of modules of one class, each stacked along a new first dim: what
    `vmap` over `functional_call` runs an ensemble with. RuntimeError for different classes or
    modes.

    >>> import ember as torch
    >>> models = [torch.nn.Linear(3, 2) for _ in range(4)]
    >>> parameters, buffers = torch.func.stack_module_state(models)
    >>> parameters["weight"].shape
    torch.Size([4, 2, 3])
    """
    check(
        len(models) > 0,
        RuntimeError,
        "stack_module_state: Expected at least one model, got 0.",
    )
    check(
        all(m.training == models[0].training for m in models),
        RuntimeError,
        "stack_module_state: Expected all models to have the same training/eval mode.",
    )
    check(
        all(type(m) is type(models[0]) for m in models),
        RuntimeError,
        "stack_module_state: Expected all models to be of the same class.",
    )
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {k: _stacked([p[k] for p in parameters]) for k in parameters[0]},
        {k: _stacked([b[k] for b in buffers]) for k in buffers[0]},
    )


def _stacked(values: list[Any]) -> Any:
    needed = [v.requires_grad for v in values]
    check(
        len(set(needed)) == 1,
        RuntimeError,
        "Expected parameters from different models to have the same .requires_grad",
    )
    if values[0].is_leaf:
        return stack([v.detach() for v in values]).requires_grad_(needed[0])
    return stack(values)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """`root` with every batch norm normalising by the batch alone, without running statistics:
    those are written in place, which vmap cannot do for each element."""
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor of the whole batch that one inside `vmap` stands for, to look at while
    debugging."""
    check(
        isinstance(tensor, Tensor),
        ValueError,
        f"Expected a Tensor in debug_unwrap, got {type(tensor)}",
    )
    array = tensor._array
    while isinstance(array, LevelArray):
        tensor = array.value
        array = tensor._array
        if not recurse:
            break
    return tensor.detach() if tensor.requires_grad else tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` as it is: without a tracer there is nothing that would see its writes, and results
    and written arguments are the same with and without them.

    RuntimeError unless `remove` is "mutations" or "mutations_and_views".
    """
    check(
        remove in ("mutations", "mutations_and_views"),
        RuntimeError,
        "functionalize(f, remove='mutations'): received invalid argument for remove="
        f"{remove}. Valid options are:\n     remove='mutations': all inplace and out= operators "
        "will be removed from the program, and replaced with their out-of-place equivalents.\n"
        "     remove='mutations_and_views': In addition to the above, all aliasing operators "
        "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n",
    )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
