"""Which function runs an op on sparse tensors: a table by the op's name, asked by the funnel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember.core.dispatch import layouts
from ember.core.node import _sequence as sequence
from ember.core.node_names import rename
from ember.core.registry import OPS
from ember.core.sparse_array import is_sparse
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.sparse_tensors import kind_of

HANDLERS: dict[str, Callable[..., Any]] = {}
# What runs as it is: questions of a tensor's facts, what is written over other ops, conversions.
AS_IT_IS = frozenset(
    "is_complex is_floating_point is_signed is_inference is_same_size is_conj is_neg is_tensor "
    "is_distributed numel get_device requires_grad_ retain_grad backward register_hook "
    "register_post_accumulate_grad_hook as_subclass _make_subclass result_type type type_as "
    "detach detach_ size dim ndimension stride storage_offset __len__ __hash__ __repr__ __format__ "
    "__float__ __int__ __complex__ __index__ grad "
    "__neg__ __pos__ __abs__ __pow__ __ipow__ __matmul__ __rmatmul__ __iter__ __reversed__ "
    "__bool__ "
    "sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor "
    "sparse_bsr_tensor sparse_bsc_tensor to_sparse to_sparse_coo to_sparse_csr to_sparse_csc "
    "to_sparse_bsr to_sparse_bsc to_dense sparse_mask indices values _indices _values _nnz "
    "crow_indices col_indices ccol_indices row_indices coalesce is_coalesced sparse_dim dense_dim "
    "_coalesced_ sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ smm hspmm sspaddmm "
    "saddmm hsmm dsmm spmm indices_copy values_copy crow_indices_copy col_indices_copy "
    "ccol_indices_copy row_indices_copy".split()
)


def handles(*names: str) -> Callable[[Any], Any]:
    """Declare a function that runs these ops where an argument is sparse."""

    def declare(function: Any) -> Any:
        for name in names:
            HANDLERS[name] = function
        return function

    return declare


def run_on_sparse(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an op gives if an argument is sparse; NotImplemented if none is.

    NotImplementedError, which names the op, for one that is not written for sparse tensors.
    """
    if not _any_sparse(args) and not (kwargs and _any_sparse(kwargs.values())):
        return NotImplemented
    name = function.__name__
    if name in AS_IT_IS:
        return NotImplemented
    handler = HANDLERS.get(name)
    if handler is not None:
        start = next(sequence)
        result = handler(*args, **kwargs)
        node = getattr(result, "_grad_fn", None)
        if node is not None and node.sequence > start:
            rename(node, name)
        return result
    if name.endswith("_") and name[:-1] in HANDLERS:
        return _written(name, HANDLERS[name[:-1]], args, kwargs)
    if name not in OPS and name.removesuffix("_") not in OPS:
        return NotImplemented  # a function over ops, which ask in their turn
    raise not_on_sparse(name)


def not_on_sparse(name: str) -> NotImplementedError:
    """The error for an op that sparse tensors do not have."""
    return NotImplementedError(
        f"Could not run '{name}' on a sparse tensor: it is written for dense ones only; call "
        f".to_dense() on its arguments, and .to_sparse() on the result if it should be sparse"
    )


def _any_sparse(values: Any) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value._array.kind != "strided":
                return True
        elif isinstance(value, (list, tuple)) and any(is_sparse(v) for v in value):
            return True
    return False


def _written(name: str, handler: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An in-place op: computed, then put in the place of what was there."""
    target = args[0]
    if kind_of(target) == "strided":
        return target.copy_(handler(*args, **kwargs).to_dense())
    return replace(target, handler(*args, **kwargs))


def replace(target: Any, result: Tensor) -> Any:
    """Make a sparse tensor what another is: its parts and its history. RuntimeError for a leaf that
    requires grad, and for another shape."""
    check(
        not (target._requires_grad and target._grad_fn is None),
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation.",
    )
    check(
        target.shape == result.shape,
        RuntimeError,
        f"the result has shape {list(result.shape)}, which does not fit into a sparse tensor of "
        f"shape {list(target.shape)}",
    )
    result = result.to(target.dtype)
    array, storage = result._array, target._array.storage
    storage.version += 1
    array.storage = storage
    target._array = array
    target._grad_fn, target._output_nr = result._grad_fn, result._output_nr
    target._requires_grad = result._requires_grad
    return target


layouts.append(run_on_sparse)
