"""Sizes changed in place, fills, and what is written element by element."""

from __future__ import annotations

from typing import Any

from ember.core.dispatch import needs_grad
from ember.core.factory import shape_of
from ember.core.outputs import resize
from ember.core.registry import FUNCTION, METHOD, OUT, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import product
from ember.ops.create import empty, empty_strided
from ember.ops.strided import as_strided
from ember.ops.views import reshape
from ember.source_lines import warn


@composite(METHOD)
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape in the same storage, which grows if it must, uninitialised."""
    check(not needs_grad(self), RuntimeError, "cannot resize variables that require grad")
    shape = shape_of(sizes)
    check(
        all(n >= 0 for n in shape),
        RuntimeError,
        f"Trying to create tensor with negative dimension: {list(shape)}",
    )
    if shape != tuple(self.shape):
        resize(self, shape)
    if memory_format is not None:
        strides = memory_format.strides_of(shape)
        if strides is not None:
            self._array = as_strided(self.detach(), shape, strides)._array
    return self


@composite(FUNCTION | METHOD)
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
    return resize_(input, tuple(the_template.shape), memory_format=memory_format)


@composite(METHOD, name="resize")
def resized(self: Tensor, *sizes: Any) -> Tensor:
    """Another shape of the same number of elements (deprecated: `reshape` is it)."""
    warn("non-inplace resize is deprecated: use reshape")
    shape = shape_of(sizes)
    check(
        product(shape) == self.numel(),
        RuntimeError,
        lambda: (
            f"requested resize to {'x'.join(map(str, shape))} ({product(shape)} elements in "
            f"total), but the given tensor has a size of {'x'.join(map(str, self.shape))} "
            f"({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. "
        ),
    )
    return reshape(self, shape)


@composite(METHOD, name="resize_as")
def resized_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The shape of another tensor of as many elements (deprecated: `reshape` is it)."""
    warn("non-inplace resize_as is deprecated: use reshape")
    return reshape(self, tuple(tensor.shape))


@composite(FUNCTION)
def fill(input: Tensor, value: Any) -> Tensor:
    """A copy with every element set to a number."""
    return input.clone().fill_(value)


@composite(FUNCTION, name="fill_")
def fill_in_place(input: Tensor, value: Any) -> Tensor:
    """Set every element to a number."""
    return input.fill_(value)


@composite(FUNCTION, name="zero_")
def zero_in_place(input: Tensor) -> Tensor:
    """Set every element to 0."""
    return input.zero_()


@composite(METHOD)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the main diagonal to a number; with `wrap`, again below it in a tall matrix."""
    check(self.ndim >= 2, RuntimeError, "dimensions must larger than 1")
    check(
        self.ndim == 2 or len(set(self.shape)) == 1,
        RuntimeError,
        "all dimensions of input must be of equal length",
    )
    rows, columns = self.shape[0], self.shape[1]
    step = sum(self.stride())
    count = min(self.shape)
    as_strided(self, (count,), (step,), self.storage_offset()).fill_(fill_value)
    start = columns + 1
    while wrap and self.ndim == 2 and start < rows:
        length = min(rows - start, columns)
        offset = self.storage_offset() + start * self.stride(0)
        as_strided(self, (length,), (step,), offset).fill_(fill_value)
        start += columns + 1
    return self


@composite(FUNCTION)
def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """An uninitialised tensor whose dims lie in memory in the order `physical_layout`."""
    sizes, order = shape_of((size,)), shape_of((physical_layout,))
    check(
        sorted(order) == list(range(len(sizes))),
        RuntimeError,
        f"Number of dimensions in size ({len(sizes)}) and physical_layout ({len(order)}) must "
        "agree, and each dim must occur once",
    )
    made = empty([sizes[d] for d in order], **options)
    return made.permute([order.index(d) for d in range(len(sizes))])


@composite(METHOD)
def new_empty_strided(self: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """An uninitialised tensor of given strides with this one's dtype and device."""
    options.setdefault("dtype", self.dtype)
    options.setdefault("device", self.device)
    return empty_strided(size, stride, **options)


@composite(METHOD)
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element x by callable(x); on the CPU only, and slow."""
    check(self.is_cpu, TypeError, "apply_ is only implemented on CPU tensors")
    check(
        not self.requires_grad,
        RuntimeError,
        "Can't call apply_() on Variable that requires grad. Use var.detach().apply_()",
    )
    host = self._array.host()
    for place, value in enumerate(host.flat):
        host.flat[place] = callable(value.item())
    self._array.storage.version += 1
    return self


def _mapped(name: str, count: int) -> None:
    def call(self: Tensor, *arguments: Any) -> Tensor:
        others, function = arguments[:count], arguments[count]
        check(
            self.is_cpu and all(o.is_cpu for o in others),
            TypeError,
            f"{name} is only implemented on CPU tensors",
        )
        host = self._array.host()
        parts = [o.expand(self.shape)._array.host() for o in others]
        values = [
            function(*(v.item() for v in row))
            for row in zip(host.flat, *(p.flat for p in parts), strict=True)
        ]
        for place, value in enumerate(values):
            host.flat[place] = value
        self._array.storage.version += 1
        return self

    call.__name__ = name
    call.__doc__ = f"Replace each element by a function of it and those of {count} other tensor(s)."
    composite(METHOD, name=name)(call)


_mapped("map_", 1)
_mapped("map2_", 2)


@composite(FUNCTION | OUT)
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The square root of the sum of squares over dims."""
    return input.norm(2, dim, keepdim)
