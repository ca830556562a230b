"""Tensors as text: what `repr` shows, from values copied to the host."""

from __future__ import annotations

from typing import Any

from ember.backends.base import resolve
from ember.core.array import host_copy
from ember.core.levels import LevelArray
from ember.core.modes import get_default_dtype
from ember.core.printing import format_sparse, format_tensor
from ember.core.tensor import Tensor, legacy_device
from ember.device import META
from ember.device import device as Device


def text_of(tensor: Tensor) -> str:
    """The text of a tensor, as PyTorch prints it."""
    array = tensor._array
    if type(array) is LevelArray:
        return _text_of_batch(array)
    if array.kind != "strided":
        return _text_of_sparse(tensor, array)
    values: Any = None if array.spec.device is META else host_copy(array, fresh=False)
    node = tensor.grad_fn
    return format_tensor(
        values,
        array.spec.shape,
        array.spec.dtype,
        None if _goes_without_saying(array.spec.device) else str(array.spec.device),
        tensor.requires_grad,
        None if node is None else node.name(),
        get_default_dtype(),
        "tensor" if type(tensor) is Tensor else _class_name(type(tensor)),
    )


def _text_of_batch(array: LevelArray) -> str:
    """One element of a batch, shown as the whole batch."""
    whole = text_of(array.value)
    if not array.batched:
        return whole
    lines = whole.replace("\n", "\n    ")
    return f"BatchedTensor(lvl={array.frame.depth + 1}, bdim=0, value=\n    {lines}\n)"


# the names of the parts of a sparse tensor
PARTS = {
    "sparse_coo": ("indices", "values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
}


def _text_of_sparse(tensor: Tensor, array: Any) -> str:
    node, spec = tensor.grad_fn, array.spec
    note = "requires_grad=True" if tensor.requires_grad else None
    return format_sparse(
        [(n, host_copy(p)) for n, p in zip(PARTS[array.kind], array.parts, strict=True)],
        spec.shape,
        spec.dtype,
        None if _goes_without_saying(spec.device) else str(spec.device),
        f"torch.{array.kind}",
        note if node is None else f"grad_fn=<{node.name()}>",
        get_default_dtype(),
        "tensor" if type(tensor) is Tensor else _class_name(type(tensor)),
    )


def _class_name(kind: type) -> str:
    """What a subclass's text begins with: its name, unless it says otherwise (Parameter does)."""
    return str(vars(kind).get("_shown_as", kind.__name__))


def _goes_without_saying(device: Device) -> bool:
    """Whether a device is that of the default tensor type; of the GPUs, the current one."""
    return device.type == legacy_device[0].type and (
        device.type != "cuda" or device.index == resolve(Device("cuda")).index
    )


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    text, kind = text_of(self), type(self)
    # a parameter that is of another class than Parameter itself
    is_other = hasattr(kind, "_shown_as") and "_shown_as" not in vars(kind)
    return f"Parameter({text})" if is_other or vars(self).get("_is_param") else text


def _format(self: Tensor, specification: str) -> str:
    if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return format(self.item(), specification)  # type: ignore[attr-defined]
    return object.__format__(self, specification) if specification else repr(self)


for _name, _function in (("__repr__", _repr), ("__str__", _repr), ("__format__", _format)):
    setattr(Tensor, _name, _function)
__all__ = ["text_of"]
