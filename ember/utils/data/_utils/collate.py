"""From a list of samples to a batch: `default_collate`, and `default_convert` where there is no
batching.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
CollateMap = dict[Any, Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers inside `data` as tensors that share their memory; all else as it is.

    >>> import ember as torch, numpy as np
    >>> torch.utils.data.default_convert({"x": np.zeros(2, np.float32)})
    {'x': tensor([0., 0.])}
    """
    if isinstance(data, Tensor):
        return data
    if type(data).__module__ == "numpy" and not isinstance(data, (np.str_, np.bytes_)):
        if isinstance(data, np.ndarray) and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return ops.as_tensor(data)
    if isinstance(data, Mapping):
        return mapping_like(data, {key: default_convert(data[key]) for key in data})
    if is_namedtuple(data):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return sequence_like(data, [default_convert(item) for item in data])
    return data


def is_namedtuple(data: Any) -> bool:
    """Whether a tuple has field names, and so a constructor that takes its items one by one."""
    return isinstance(data, tuple) and hasattr(data, "_fields")


def mapping_like(sample: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the sample's type, with what else it carries; a dict if it cannot be made."""
    try:
        if isinstance(sample, MutableMapping):
            made: Any = copy.copy(sample)
            made.update(items)
            return made
        return type(sample)(items)
    except TypeError:
        return items


def sequence_like(sample: Sequence[Any], items: list[Any]) -> Any:
    """A sequence of the sample's type, with what else it carries; a list if it cannot be made."""
    try:
        if isinstance(sample, MutableSequence):
            made: Any = copy.copy(sample)
            for position, item in enumerate(items):
                made[position] = item
            return made
        return type(sample)(items)
    except TypeError:
        return items


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """A batch from samples: containers are merged item by item, leaves by the function of their
    type.

    The map's keys are types or tuples of types; an exact type wins over a base class. TypeError for
    a leaf that has none.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for types, function in collate_fn_map.items():
            if isinstance(first, types):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        merged = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return mapping_like(first, merged)
    if is_namedtuple(first):
        columns = zip(*batch, strict=True)
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in columns))
    if not isinstance(first, Sequence):
        raise TypeError(default_collate_err_msg_format.format(kind))
    return _collate_sequences(first, batch, collate_fn_map)


def _collate_sequences(first: Any, batch: Any, collate_fn_map: CollateMap | None) -> Any:
    check(
        all(len(sample) == len(first) for sample in batch),
        RuntimeError,
        "each element in list of batch should be of equal size",
    )
    items = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
    return items if isinstance(first, tuple) else sequence_like(first, items)


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors of one shape, stacked along a new first dim."""
    return ops.stack(tuple(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy arrays of one shape, as one tensor. TypeError for arrays of strings and objects."""
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    return collate_tensor_fn([ops.as_tensor(array) for array in batch])


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy numbers as a vector of their dtype."""
    return ops.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python floats as a vector of float64."""
    return ops.tensor(np.array(batch, np.float64))


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python integers and bools as a vector."""
    values = np.array(batch)  # much faster than a look at each number; large ones go the slow way
    return ops.tensor(values if values.dtype in (np.int64, np.bool_) else batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Strings and bytes stay as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A batch from a list of samples: tensors, arrays and numbers stacked, containers item by item.

    A list of tuples becomes a list of batches, a list of dicts a dict of them; strings stay a list.
    TypeError for what cannot be stacked, RuntimeError for sequences of different lengths.

    >>> import ember as torch
    >>> torch.utils.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
