"""Complex numbers: their parts, conjugates, angles, and how they are made of real ones."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core import dispatch, modes
from ember.core.dispatch import needs_grad, node_type
from ember.core.levels import LevelArray
from ember.core.node import Node, edge_of
from ember.core.registry import (
    FUNCTION,
    METHOD,
    OUT,
    composite,
    elementwise,
    install_method,
)
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import INEXACT
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, spec_of
from ember.layout import broadcast_shapes
from ember.ops.argument_types import check_tensor
from ember.ops.joining import stack
from ember.scalar import primitives as p
from ember.scalar.primitives import where

PLAIN = FUNCTION | METHOD | OUT


class PartsNode(Node):
    """A recorded change between complex numbers and parts: the gradient changes back."""

    __slots__ = ("back",)

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient seen the other way."""
        return (self.back(grads[0].contiguous()),)


def _seen(
    input: Tensor, name: str, shape: Any, strides: Any, dtype: DType, offset: int, back: Any
) -> Tensor:
    array = input._array
    if isinstance(array, LevelArray):
        seen = array.through(view_as_real if name == "view_as_real" else view_as_complex)
    else:
        seen = Array(array.storage, spec_of(shape, strides, dtype, input.device), offset)
    out = tensor_of(seen)
    if modes.state.grad and needs_grad(input):
        node = node_type(PartsNode, name)((edge_of(input),), (out._array.spec,))
        node.back = back
        dispatch.attach(node, [out])
    return out


@composite(FUNCTION)
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor's memory as real numbers, with (real, imaginary) in a new last dim."""
    check(input.is_complex(), RuntimeError, "view_as_real is only supported for complex tensors")
    spec = input._array.spec
    strides = (*(2 * s for s in spec.strides), 1)
    return _seen(
        input, "view_as_real", (*spec.shape, 2), strides, spec.dtype.to_real(),
        2 * input._array.offset, view_as_complex,
    )  # fmt: skip


@composite(FUNCTION)
def view_as_complex(input: Tensor) -> Tensor:
    """Real numbers in pairs along the last dim as complex ones, in the same memory."""
    spec, offset = input._array.spec, input._array.offset
    check(
        spec.dtype in (dtypes.float32, dtypes.float64, dtypes.float16),
        RuntimeError,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor "
        "of scalar type: "
        f"{spec.dtype.title}",
    )
    check(spec.ndim > 0, RuntimeError, "Input tensor must have one or more dimensions")
    check(spec.shape[-1] == 2, RuntimeError, "Tensor must have a last dimension of size 2")
    check(spec.strides[-1] == 1, RuntimeError, "Tensor must have a last dimension with stride 1")
    check(
        all(s % 2 == 0 for s in spec.strides[:-1]),
        RuntimeError,
        "Tensor must have a stride divisible by 2 for all but last dimension",
    )
    check(offset % 2 == 0, RuntimeError, "Tensor must have a storage_offset divisible by 2")
    strides = tuple(s // 2 for s in spec.strides[:-1])
    return _seen(
        input, "view_as_complex", spec.shape[:-1], strides, spec.dtype.to_complex(),
        offset // 2, view_as_real,
    )  # fmt: skip


@composite(FUNCTION)
def real(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor itself."""
    return view_as_real(input).select(-1, 0) if input.is_complex() else input


@composite(FUNCTION)
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view. RuntimeError for real tensors."""
    check(
        input.is_complex(),
        RuntimeError,
        "imag is not implemented for tensors with non-complex dtypes.",
    )
    return view_as_real(input).select(-1, 1)


def _part_property(function: Any) -> None:
    def write(self: Tensor, value: Any) -> None:
        target = function(self)
        if isinstance(value, Tensor):
            target.copy_(value)
        else:
            target.fill_(value)

    install_method(function.__name__, property(function, write, doc=function.__doc__))


_part_property(real)
_part_property(imag)


@elementwise(name="conj")
def conjugate(input: Any) -> Any:
    """The complex conjugate."""
    return p.conj(input)


conjugate.grad = lambda g: (p.conj(g),)


@composite(FUNCTION | METHOD)
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return conjugate(input) if input.is_complex() else input


@composite(PLAIN)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate in memory of its own; a real tensor itself."""
    return conj(input)


@composite(FUNCTION | METHOD)
def conj_physical_(self: Tensor) -> Tensor:
    """Conjugate in place."""
    return conjugate.inplace(self) if self.is_complex() else self


@composite(FUNCTION | METHOD)
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once here."""
    return input


@composite(FUNCTION | METHOD)
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negatives are computed at once here."""
    return input


@composite(FUNCTION | METHOD)
def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is still due: never here."""
    return False


@composite(FUNCTION | METHOD)
def is_neg(input: Tensor) -> bool:
    """Whether a negation is still due: never here."""
    return False


@composite(FUNCTION | METHOD)
def adjoint(input: Tensor) -> Tensor:
    """Matrices transposed and conjugated."""
    return input.mH


def _angled(dtype: DType) -> tuple[DType, DType]:
    dtype = dispatch.floated(dtype)
    return dtype, dtype.to_real()


@elementwise(PLAIN, promote=_angled, accepts=INEXACT)
def angle(input: Any) -> Any:
    """The angle of a complex number; π for negative real ones, 0 for others."""
    return p.angle(input)


angle.grad = lambda g, input: (where(p.eq(input, 0), 0, g * p.turn(input)),)


def _check_parts(name: str, real: Tensor, imag: Tensor) -> None:
    check_tensor(name, "real" if name == "complex" else "abs", 1, real)
    check_tensor(name, "imag" if name == "complex" else "angle", 2, imag)
    check(
        real.dtype in (dtypes.float16, dtypes.float32, dtypes.float64)
        and imag.dtype in (dtypes.float16, dtypes.float32, dtypes.float64),
        RuntimeError,
        "Expected both inputs to be Half, Float or Double tensors but got "
        f"{real.dtype.title} and {imag.dtype.title}",
    )
    check(
        real.dtype is imag.dtype,
        RuntimeError,
        f"Expected object of scalar type {real.dtype.title} but got scalar type "
        f"{imag.dtype.title} for second argument",
    )


@composite(FUNCTION | OUT, name="complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """real + i · imag.

    >>> import ember as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    shape = broadcast_shapes(tuple(real.shape), tuple(imag.shape))
    return view_as_complex(stack([real.expand(shape), imag.expand(shape)], -1))


@composite(FUNCTION | OUT)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs · (cos(angle) + i · sin(angle))."""
    _check_parts("polar", abs, angle)
    if abs.dtype is dtypes.float16:
        raise dispatch.not_implemented("polar_cpu", abs.dtype)
    return complex_(abs * angle.cos(), abs * angle.sin())
