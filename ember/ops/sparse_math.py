"""Arithmetic on sparse tensors, element by element: dense ops on their values."""

from __future__ import annotations

from typing import Any

from ember.core.registry import METHOD, OPS, composite
from ember.core.sparse_array import COO
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.sparse_creation import no_elements
from ember.ops.sparse_dispatch import handles, not_on_sparse, replace
from ember.ops.sparse_tensors import (
    as_coo,
    back_to,
    coalesced,
    coordinates,
    flat_places,
    is_coo,
    kind_of,
    like,
    parts_of,
    picked,
    product,
    put_together,
    rebuild,
    values_of,
)

ZERO_STAYS_ZERO = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf "
    "isposinf log1p positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh "
    "trunc nan_to_num real imag"
).split()
CASTS = "double float half bfloat16 int long short char byte bool cfloat cdouble chalf".split()
ADD_TO_DENSE = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


def _define_unary(name: str) -> None:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        source = coalesced(self) if is_coo(self) else self
        return like(source, OPS[name](values_of(source), *args, **kwargs))

    handles(name)(run)


for _name in ZERO_STAYS_ZERO:
    _define_unary(_name)


@handles("neg")
def neg(self: Any) -> Any:
    """-self, duplicates as they are."""
    return like(self, -values_of(self))


@handles("pow", "power", "float_power")
def power(self: Any, exponent: Any) -> Any:
    """self to a positive power."""
    positive = isinstance(exponent, (int, float)) and exponent > 0
    if not positive or isinstance(exponent, Tensor):
        raise not_on_sparse("pow with an exponent that is no positive number")
    source = coalesced(self) if is_coo(self) else self
    return like(source, values_of(source) ** exponent)


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (value.dim() == 0 and kind_of(value) == "strided")


@handles("mul", "multiply")
def mul(self: Any, other: Any) -> Any:
    """The product with a number, or element by element with a dense or sparse tensor; sparse where
    one factor is."""
    if _is_number(other):
        return like(self, values_of(self) * other)
    if _is_number(self) or kind_of(self) == "strided":
        return mul(other, self)
    check(
        OPS["broadcast_shapes"](self.shape, other.shape) == self.shape,
        NotImplementedError,
        f"a sparse tensor of shape {list(self.shape)} is not broadcast to the other factor's "
        f"{list(other.shape)}: expand it as a dense one",
    )
    if kind_of(other) == "strided":
        factor = other.expand(self.shape)
        return like(self, values_of(self) * picked(factor, coordinates(self)))
    check(
        self.shape == other.shape,
        RuntimeError,
        f"mul operands have incompatible sizes: {list(self.shape)} and {list(other.shape)}",
    )
    return back_to(kind_of(self), _common(as_coo(self), as_coo(other)))


def _common(first: Any, second: Any) -> Any:
    """The product of two tensors of coordinates; of only the places of both if they are
    coalesced."""
    indices, factor = parts_of(first)[0], picked(second, parts_of(first)[0])
    values = values_of(first) * factor
    if first._array.coalesced and second._array.coalesced:
        marks = put_together(
            COO, [parts_of(second)[0], _marks(second)], second.shape[: len(indices)]
        )
        kept = picked(marks, indices).nonzero().squeeze(1)
        if kept.shape[0] < indices.shape[1]:
            indices, values = indices.index_select(1, kept), values.index_select(0, kept)
    return rebuild(COO, [indices, values], first.shape, first._array.coalesced, "mul")


def _marks(tensor: Any) -> Tensor:
    indices = parts_of(tensor)[0]
    return indices.new_ones(indices.shape[1])


@handles("div", "true_divide", "divide", "floor_divide")
def div(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """The quotient by a number."""
    return _quotient(self, other, rounding_mode)


def _quotient(self: Any, other: Any, rounding_mode: str | None) -> Any:
    check(
        _is_number(other) and kind_of(self) != "strided",
        RuntimeError,
        lambda: (
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', ()))} for divisor)"
        ),
    )
    source = coalesced(self) if rounding_mode and is_coo(self) else self
    return like(source, OPS["div"](values_of(source), other, rounding_mode=rounding_mode))


@handles("floor_divide")
def floor_divide(self: Any, other: Any) -> Any:
    """The quotient by a number, rounded down."""
    return _quotient(self, other, "floor")


@handles("add")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The sum of two sparse tensors, or of a dense and a sparse one (in this order), which is
    dense."""
    check(isinstance(input, Tensor) and isinstance(other, Tensor), RuntimeError, ADD_TO_DENSE)
    if kind_of(input) == "strided":
        return _onto_dense(input, as_coo(other), alpha)
    if kind_of(other) == "strided":
        check(not is_coo(input), RuntimeError, ADD_TO_DENSE)
        return _onto_dense(other * alpha, as_coo(input), 1)
    check(
        input.shape == other.shape,
        RuntimeError,
        f"add: expected sizes of 'self' and 'other' to match, but {list(input.shape)} != "
        f"{list(other.shape)}",
    )
    kind = kind_of(input)
    return back_to(kind, _sum(as_coo(input), as_coo(other), alpha))


def _onto_dense(input: Tensor, other: Any, alpha: Any) -> Tensor:
    check(
        input.shape == other.shape,
        NotImplementedError,
        f"add(dense, sparse): expected sizes to match, but {list(input.shape)} != "
        f"{list(other.shape)}; a sparse tensor is not broadcast",
    )
    dtype = OPS["result_type"](input, other) if "result_type" in OPS else None
    values = values_of(other) if alpha == 1 else values_of(other) * alpha
    wide = (input.reshape(-1)[:0] + values.reshape(-1)[:0]).dtype if dtype is None else dtype
    indices = parts_of(other)[0]
    sizes, rest = input.shape[: indices.shape[0]], input.shape[indices.shape[0] :]
    flat = input.to(wide).reshape((product(sizes), *rest))
    return flat.index_add(0, flat_places(indices, sizes), values.to(wide)).reshape(input.shape)


def _sum(first: Any, second: Any, alpha: Any) -> Any:
    mine, theirs = parts_of(first)[0], parts_of(second)[0]
    values, more = values_of(first), values_of(second)
    more = more if alpha == 1 else more * alpha
    if mine._array is theirs._array or (mine.shape == theirs.shape and mine.equal(theirs)):
        return like(first, values + more)
    check(
        mine.shape[0] == theirs.shape[0],
        RuntimeError,
        f"add: expected 'self' and 'other' to have same number of sparse dims, but {len(mine)} != "
        f"{len(theirs)}",
    )
    indices = OPS["cat"]([mine, theirs], 1)
    made = rebuild(COO, [indices, OPS["cat"]([values, more])], first.shape, False, "add")
    return coalesced(made) if first._array.coalesced and second._array.coalesced else made


@handles("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The difference, as for the sum."""
    check(isinstance(input, Tensor) and isinstance(other, Tensor), RuntimeError, ADD_TO_DENSE)
    return add(input, other, alpha=-alpha)


@handles("add_")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The sum written into the first: a dense one is written at the other's places."""
    if kind_of(self) == "strided":
        source = as_coo(other)
        if not self.is_contiguous() or self.dtype is not source.dtype or self.shape != other.shape:
            return self.copy_(_onto_dense(self, source, alpha))
        indices, values = parts_of(source)[0], values_of(source)
        sizes, rest = self.shape[: indices.shape[0]], self.shape[indices.shape[0] :]
        rows = self.view((product(sizes), *rest))  # only what is stored is written
        rows.index_add_(0, flat_places(indices, sizes), values, alpha=alpha)
        return self
    return replace(self, add(self, other, alpha=alpha))


@handles("sub_")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The difference written into the first."""
    return add_(self, other, alpha=-alpha)


@handles("addcmul", "addcdiv")
def _no_combination(*args: Any, **kwargs: Any) -> Any:
    raise not_on_sparse("addcmul")


# copies


@handles("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy with parts of its own."""
    indices = [part.clone() for part in parts_of(input)[:-1]]
    values, known = values_of(input).clone(), input._array.coalesced
    return rebuild(kind_of(input), [*indices, values], input.shape, known, "clone")


@handles("tensor", "as_tensor", "asarray")
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A copy without history."""
    made = clone(data.detach()).to(device or data.device, dtype or data.dtype)
    return made.requires_grad_(requires_grad)


@handles("dropout")
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of the stored values."""
    return like(input, OPS["dropout"](values_of(input), p, training))


@handles("to")
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor in another dtype or on another device; itself if nothing changes."""
    if kind_of(self) == "strided":  # to(sparse): its dtype and device
        other = kwargs.pop("other", None) if "other" in kwargs else args[0]
        return self.to(other.device, other.dtype)
    kwargs.pop("memory_format", None)
    values = values_of(self)
    return _moved(self, values, values.to(*args, **kwargs))


def _moved(tensor: Any, before: Tensor, values: Tensor) -> Any:
    if values is before:
        return tensor
    indices = [part.to(values.device) for part in parts_of(tensor)[:-1]]
    known = tensor._array.coalesced
    return rebuild(kind_of(tensor), [*indices, values], tensor.shape, known, "to_copy")


def _define_move(name: str) -> None:
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = values_of(self)
        return _moved(self, values, getattr(values, name)(*args, **kwargs))

    handles(name)(move)


for _name in ("cpu", "cuda", "pin_memory", *CASTS):
    _define_move(_name)


@handles("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Make a sparse tensor a copy of another. RuntimeError between dense and sparse ones."""
    check(
        kind_of(self) == kind_of(src),
        RuntimeError,
        "copy_() between dense and sparse Tensors is not implemented! Call .to_dense() on the "
        "source, or .to_sparse()",
    )
    return replace(self, clone(src.to(self.device, self.dtype)))


@handles("zero_")
def zero_(self: Any) -> Any:
    """Forget all that is stored."""
    rest = self.dim() - parts_of(self)[0].shape[0] if is_coo(self) else 0
    return replace(
        self,
        no_elements(self.shape, self.dtype, self.device, kind=kind_of(self), dense_dims=rest),
    )


@handles("zeros_like", "empty_like")
def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Any:
    """A sparse tensor of the same shape in which nothing is stored."""
    dtype, device = dtype or input.dtype, device or input.device
    kind = kind_of(input) if layout is None else layout.name
    if kind == "strided":
        return OPS["zeros"](input.shape, dtype=dtype, device=device, requires_grad=requires_grad)
    rest = input.dim() - parts_of(input)[0].shape[0] if is_coo(input) else 0
    return no_elements(input.shape, dtype, device, requires_grad, kind, rest)


@handles("new_zeros", "new_empty")
def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    """A sparse tensor of a shape in which nothing is stored."""
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return no_elements(tuple(shape), dtype or self.dtype, device or self.device)


@composite(METHOD)
def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Change the size of a sparse tensor of coordinates, whose stored elements stay."""
    check(is_coo(self), RuntimeError, "sparse_resize_: expected a sparse coordinate tensor")
    shape, indices = tuple(size), parts_of(self)[0]
    grown = all(a >= b for a, b in zip(shape, self.shape, strict=False))
    kept = not indices.shape[1] or (sparse_dim == indices.shape[0] and grown)
    check(
        kept and len(shape) == sparse_dim + dense_dim,
        RuntimeError,
        "sparse_resize_: shrinking the size, or changing the number of sparse dims, of a non-empty "
        "sparse tensor is not supported",
    )
    self._array = put_together(COO, parts_of(self), shape, self._array.coalesced)._array
    return self


@composite(METHOD)
def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Forget what is stored, and change the size."""
    made = no_elements(tuple(size), self.dtype, self.device, dense_dims=dense_dim)
    self._array = made._array
    return self


@composite(METHOD)
def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """Change the size to that of another sparse tensor."""
    rows = parts_of(the_template)[0].shape[0]
    return sparse_resize_(self, the_template.shape, rows, the_template.dim() - rows)


# to Python


@handles("numpy", "__array__")
def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
    """TypeError: NumPy has no sparse arrays."""
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


@handles("tolist")
def tolist(self: Any) -> Any:
    """RuntimeError: there is no memory of the tensor's shape."""
    raise RuntimeError(
        "Cannot access data pointer of Tensor that doesn't have storage: call .to_dense() first"
    )


@handles("item", "is_nonzero")
def item(self: Any) -> Any:
    """The one element. RuntimeError for more."""
    count = self.numel()
    check(count == 1, RuntimeError, f"a Tensor with {count} elements cannot be converted to Scalar")
    return self.to_dense().item()
