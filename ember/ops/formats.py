"""Memory formats and the layout object: names for orders of dims in memory."""

from __future__ import annotations

from typing import Any

from ember.core.tensor import Tensor
from ember.layout import Shape, channels_last_strides, channels_lie_last, contiguous_strides


class memory_format:
    """An order of dims in memory; `strides_of(shape)` gives its strides (None where it keeps what
    is there)."""

    def __init__(self, name: str):
        self.name = name

    def strides_of(self, shape: Shape) -> Shape | None:
        """The dense strides of a shape in this format; RuntimeError for the wrong number of
        dims."""
        if self is preserve_format:
            return None
        if self is contiguous_format:
            return contiguous_strides(shape)
        wanted = 4 if self is channels_last else 5
        if len(shape) != wanted:
            raise RuntimeError(f"required rank {wanted} tensor to use {self.name} format")
        return channels_last_strides(shape)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout:
    """How elements are stored: with dense strides, or only some of them with their indices."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


preserve_format = memory_format("preserve_format")
contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def channels_format(tensor: Tensor) -> memory_format | None:
    """channels_last or channels_last_3d if the tensor's channels lie last, else None."""
    return format_of(tensor._array.spec)


def format_of(spec: Any) -> memory_format | None:
    """The same of a spec."""
    if not channels_lie_last(spec.shape, spec.strides):
        return None
    return channels_last if len(spec.shape) == 4 else channels_last_3d


def plain_order(tensor: Any) -> Any:
    """The tensor in row-major order, where kernels are fastest, if its channels lie last."""
    return tensor if channels_format(tensor) is None else tensor.contiguous()


def in_order_of(tensor: Tensor, result: Any) -> Any:
    """`result`, with its channels last if the tensor's lie so: a copy where it does not yet."""
    found = channels_format(tensor)
    return result if found is None else result.contiguous(memory_format=found)


strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = map(layout, ("sparse_coo", "sparse_csr", "sparse_csc"))
sparse_bsr, sparse_bsc, jagged = map(layout, ("sparse_bsr", "sparse_bsc", "jagged"))
LAYOUTS = {
    known.name: known
    for known in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
}


def _layout(self: Tensor) -> layout:
    """How the elements are stored."""
    return LAYOUTS[self._array.kind]


Tensor.layout = property(_layout)
