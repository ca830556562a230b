"""Views by strides of the memory itself, transposed properties, and layouts changed in place."""

from __future__ import annotations

from typing import Any

from ember.core.array import full as full_array
from ember.core.dispatch import needs_grad, node_type
from ember.core.factory import shape_of
from ember.core.node import Node
from ember.core.registry import FUNCTION, METHOD, composite, install_method
from ember.core.registry import view as view_op
from ember.core.tensor import Tensor, tensor_of
from ember.core.view import adjoint
from ember.errors import check
from ember.kernel.array import contiguous_spec
from ember.layout import Layout
from ember.ops.views import _permute, squeeze, t, transpose, unsqueeze
from ember.source_lines import warn


@composite(FUNCTION | METHOD)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The storage of a tensor seen with any shape, strides and offset."""
    shape, strides = shape_of((size,)), shape_of((stride,))
    array = input._array
    offset = array.offset if storage_offset is None else int(storage_offset)
    check(
        len(shape) == len(strides),
        RuntimeError,
        f"mismatch in length of strides and shape: {list(shape)} and {list(strides)}",
    )
    check(
        all(n >= 0 for n in shape),
        RuntimeError,
        f"Trying to create tensor with negative dimension: {list(shape)}",
    )
    check(
        all(s >= 0 for s in strides),
        RuntimeError,
        "as_strided: Negative strides are not supported at the moment, got strides: "
        f"{list(strides)}",
    )
    check(offset >= 0, RuntimeError, f"Tensor: invalid storage offset {offset}")
    layout = Layout(shape, strides, offset)
    needed, present = layout.extent()[1] * array.spec.dtype.itemsize, array.storage.nbytes
    check(
        needed <= present or layout.numel == 0,
        RuntimeError,
        f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
        "itemsize "
        f"{array.spec.dtype.itemsize} requiring a storage size of {needed} are out of bounds for "
        f"storage of size {present}",
    )
    return _as_strided(input, layout)


@composite(FUNCTION | METHOD)
def slice_inverse(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A view of the storage of `input` with the shape, strides and offset of `src`, of which
    `input` is the slice."""
    return as_strided(input, src.shape, src.stride(), src.storage_offset())


@composite(FUNCTION | METHOD)
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Give a tensor another shape, strides and offset in its storage."""
    return relayout(input, as_strided(input.detach(), size, stride, storage_offset))


def _as_strided(input: Tensor, layout: Layout) -> Tensor:
    own = input._array.layout
    out = _strided(input, layout)
    if out._grad_fn is not None and needs_grad(input):
        node = node_type(StridedNode, "as_strided")(out._grad_fn.edges, out._grad_fn.out_specs)
        node.own, node.layout = own, layout
        out._grad_fn = node
    return out


@view_op(absolute=True)
def _strided(layout: Layout, target: Layout) -> Layout:
    return target


class StridedNode(Node):
    """A recorded as_strided: its gradient goes through the input's memory."""

    __slots__ = ("layout", "own")

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient in memory, read back where the input's elements lie."""
        start = min(self.own.offset, self.layout.offset)
        extent = max(self.own.extent()[1], self.layout.extent()[1]) - start
        target = self.layout._replace(offset=self.layout.offset - start)
        own = self.own._replace(offset=self.own.offset - start)
        memory = adjoint(grads[0], (extent,), target)
        if any(s == 0 and n > 1 for n, s in zip(own.shape, own.strides, strict=True)):
            spec = grads[0]._array.spec
            ones = tensor_of(full_array(contiguous_spec(own.shape, spec.dtype, spec.device), 1))
            memory = memory / adjoint(ones, (extent,), own).clamp(min=1)
        memory = memory.contiguous()  # it may be a view of a larger tensor
        first = memory.storage_offset()
        return (memory.as_strided(own.shape, own.strides, first + own.offset),)


def _define_properties() -> None:
    def T(self: Tensor) -> Tensor:
        if self.ndim == 0:
            warn(
                "Tensor.T is deprecated on 0-D tensors. This function is the identity in these "
                "cases."
            )
        elif self.ndim != 2:
            warn(
                "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
                "deprecated and it will throw an error in a future release. Consider `x.mT` to "
                "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` "
                "to reverse the dimensions of a tensor."
            )
        return _permute(self, tuple(range(self.ndim))[::-1])

    def mT(self: Tensor) -> Tensor:
        if self.ndim == 0:
            warn(
                "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these "
                "cases."
            )
            return _permute(self, ())
        check(
            self.ndim >= 2,
            RuntimeError,
            f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D "
            "tensor.",
        )
        return transpose(self, -2, -1)

    def conjugated(self: Tensor, what: str) -> Tensor:
        warn(f"{what} deprecated on 0-D tensors. Consider using x.conj().")
        return self.conj() if self.is_complex() else _permute(self, ())

    def H(self: Tensor) -> Tensor:
        check(
            self.ndim in (0, 2),
            RuntimeError,
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.",
        )
        if self.ndim == 0:
            return conjugated(self, "Tensor.H is")
        turned = T(self)
        return turned.conj() if turned.is_complex() else turned

    def mH(self: Tensor) -> Tensor:
        if self.ndim == 0:
            return conjugated(self, "Tensor.mH is")
        turned = mT(self)
        return turned.conj() if turned.is_complex() else turned

    for function in (T, mT, H, mH):
        install_method(
            function.__name__,
            property(function, doc=f"The tensor transposed ({function.__name__})."),
        )


_define_properties()


@composite(METHOD)
def t_(self: Tensor) -> Tensor:
    """Transpose in place: only the layout changes."""
    return relayout(self, t(self.detach()))


@composite(METHOD, names=("swapaxes_", "swapdims_"))
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two dims in place: only the layout changes."""
    return relayout(self, transpose(self.detach(), dim0, dim1))


@composite(METHOD)
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Add a dim of size 1 in place."""
    return relayout(self, unsqueeze(self.detach(), dim))


@composite(METHOD)
def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """Drop dims of size 1 in place."""
    return relayout(self, squeeze(self.detach(), dim))


def relayout(self: Tensor, changed: Tensor) -> Tensor:
    """Give a tensor the layout of a view of itself. RuntimeError where gradients flow."""
    check(
        not needs_grad(self),
        RuntimeError,
        "changing the layout in place is not supported for tensors that require grad: use the "
        "form without _",
    )
    self._array = changed._array
    return self
