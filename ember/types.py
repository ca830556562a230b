"""`torch.types`: names for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, Union

from ember.autograd.graph import GradientEdge
from ember.core.tensor import Tensor
from ember.device import device
from ember.dtypes import dtype
from ember.layout import Size
from ember.ops.formats import layout
from ember.symbolic_numbers import SymBool, SymFloat, SymInt

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _bytes, _complex, _float, _int, _str = bool, bytes, complex, float, int, str
_device, _dtype, _layout = device, dtype, layout
Number = _int | _float | _bool
_Number = (_int, _float, _bool)
Device = _device | _str | _int | None
FileLike = Union[_str, "os.PathLike[str]", IO[bytes]]
_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge = Tensor | Sequence[Tensor] | GradientEdge | Sequence[GradientEdge]
_size = Size | list[int] | tuple[int, ...]
_symsize = Size | Sequence[_int | SymInt]
_dispatchkey = _str
IntLikeType = _int | SymInt
FloatLikeType = _float | SymFloat
BoolLikeType = _bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = SymInt | SymFloat | SymBool


class Storage:
    """What annotations call the memory of a tensor; `torch.Storage` is the class itself."""

    _cdata: int

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        raise NotImplementedError("torch.types.Storage is for annotations: use torch.Storage")

    def _new_shared(self, size: int) -> Storage:
        raise NotImplementedError("torch.types.Storage is for annotations: use torch.Storage")
