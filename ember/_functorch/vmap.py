"""`vmap` under a private name, and its steps, which libraries call or replace.

`torch.vmap` runs by the steps of this module once one of them was replaced: inputs are taken apart
(`_process_batched_inputs`), made elements of a batch (`_create_batched_inputs`), and results are
taken out (`_unwrap_batched`). A level is the number of transforms in force.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ember.core import modes
from ember.core.levels import Below, LevelArray
from ember.core.lifting import is_batched
from ember.core.tensor import Tensor
from ember.errors import check
from ember.func import mapping
from ember.func.mapping import vmap
from ember.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = ["get_unwrapped", "is_batchedtensor", "vmap"]
_get_name = mapping._name


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is one element of a batch, inside vmap."""
    return is_batched(tensor)


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is of the vmap before functorch's: there is none."""
    return False


def get_unwrapped(tensor: Any) -> Any:
    """The tensor one level further out: of the whole batch, if this is an element of one."""
    array = tensor._array
    return array.value if type(array) is LevelArray else tensor


def _frame(level: int) -> Any:
    check(
        0 < level <= len(modes.state.levels),
        RuntimeError,
        f"there is no transform of level {level}: {len(modes.state.levels)} are in force",
    )
    return modes.state.levels[level - 1]


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """A batch, counted by a dim, as one element of it in the transform of a level."""
    frame = _frame(level)
    with Below(frame):
        moved = mapping._to_front(tensor, in_dim % tensor.ndim)
    made: Tensor = frame.wrap(moved)
    return made


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """The whole batch of an element, its dim at `out_dim`."""
    frame = _frame(level)
    with Below(frame):
        made: Tensor = mapping.taken_out("vmap", vmap, frame, tensor, out_dim)
    return made


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result outside the transform; with `out_dim` None one that is no batch."""

    def function() -> None:
        """Stands for the mapped function in messages."""

    function.__name__ = name
    frame = _frame(vmap_level)
    with Below(frame):
        return mapping.taken_out(f"vmap({name}, ...)", function, frame, batched_output, out_dim)


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[Any], list[Any], Any]:
    """The size of the batch, each leaf's dim, the leaves, and their structure."""
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    check(
        dims is not None,
        ValueError,
        f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
        f"with the structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} but "
        f"inputs has structure {spec}.",
    )
    leaves, dims, _, size = mapping.batched_inputs(func, tuple(dims or ()), tuple(leaves))
    return size, dims, leaves, spec


def _create_batched_inputs(
    flat_in_dims: list[Any], flat_args: list[Any], vmap_level: int, args_spec: Any
) -> Any:
    """The arguments of the mapped function."""
    pairs = zip(flat_in_dims, flat_args, strict=True)
    return tree_unflatten(
        [a if d is None else _add_batch_dim(a, d, vmap_level) for d, a in pairs], args_spec
    )


def _unwrap_batched(
    batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable[..., Any]
) -> Any:
    """The results of `vmap`, from those of the mapped function."""
    leaves, spec = tree_flatten(batched_outputs)
    single = isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf()
    dims = _broadcast_to_and_flatten(out_dims[0] if single else out_dims, spec)
    check(
        dims is not None,
        ValueError,
        f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
        f"with the structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but "
        f"outputs has structure {spec}.",
    )
    made = [
        _maybe_remove_batch_dim(_get_name(func), leaf, vmap_level, batch_size, dim)
        for leaf, dim in zip(leaves, dims or (), strict=True)
    ]
    return tree_unflatten(made, spec)


_OWN = (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)


def _steps() -> tuple[Any, ...] | None:
    """The three steps if any of them was replaced."""
    module = sys.modules[__name__]
    found = tuple(getattr(module, step.__name__) for step in _OWN)
    return None if found == _OWN else found


mapping.replaced_steps.append(_steps)
