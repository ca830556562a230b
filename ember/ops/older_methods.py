"""Methods and functions for how tensors lie in memory, for modules that load, and the functions
that PyTorch has removed, which say what to call instead."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, METHOD, OPS, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.formats import memory_format

REMOVED = "This function was deprecated since version 1.9 and is now removed. "
INSTEAD = {
    "eig": "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than "
    "real tensors mimicking complex tensors.",
    "lstsq": "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which has reversed "
    "arguments.",
    "matrix_rank": "Please use the `torch.linalg.matrix_rank` function instead. The parameter "
    "'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
    "solve": "`torch.solve` is deprecated in favor of `torch.linalg.solve`, which has its "
    "arguments reversed and does not return the LU factorization.",
    "symeig": "Use `torch.linalg.eigvalsh` and `torch.linalg.eigh`, which read the lower triangle "
    "by default.",
}


def _define_removed(name: str) -> None:
    def removed(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(REMOVED + INSTEAD[name])

    removed.__name__ = name
    removed.__doc__ = f"RuntimeError: {INSTEAD[name]}"
    composite(FUNCTION if name == "matrix_rank" else FUNCTION | METHOD)(removed)


for _name in INSTEAD:
    _define_removed(_name)

NAMES = "names of dims are left out: a tensor's dims are known by their numbers"
LEFT_OUT = {
    "align_as": NAMES,
    "align_to": NAMES,
    "refine_names": NAMES,
    "rename": NAMES,
    "rename_": NAMES,
    "to_mkldnn": "there are no MKL-DNN tensors; dense ones are as good on the CPU",
    "to_padded_tensor": "there are no nested tensors; torch.nn.utils.rnn.pad_sequence pads a list",
}


def _define_left_out(name: str) -> None:
    def refuse(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"Tensor.{name}: {LEFT_OUT[name]}")

    refuse.__name__ = name
    refuse.__doc__ = f"NotImplementedError: {LEFT_OUT[name]}."
    composite(METHOD)(refuse)


for _name in LEFT_OUT:
    _define_left_out(_name)


@composite(METHOD)
def reinforce(self: Tensor, reward: Any) -> None:
    """RuntimeError: distributions do what it did."""
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead: "
        "loss = -distribution.log_prob(action) * reward"
    )


@composite(METHOD)
def dim_order(
    self: Tensor, *, ambiguity_check: bool | list[memory_format] = False
) -> tuple[int, ...]:
    """The dims from the one with the largest stride to the one with the smallest.

    With `ambiguity_check` a RuntimeError if several orders fit; with a list of memory formats, if
    not exactly one of them fits.

    >>> import ember as torch
    >>> torch.empty(2, 3, 4).permute(2, 0, 1).dim_order()
    (1, 2, 0)
    """
    strides, shape = self.stride(), self.shape
    order = tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))
    if isinstance(ambiguity_check, list):
        fitting = [f for f in ambiguity_check if self.is_contiguous(memory_format=f)]
        clear = len(fitting) == 1
        if clear and fitting[0].strides_of(shape) is not None:
            packed = fitting[0].strides_of(shape)
            order = tuple(sorted(range(self.dim()), key=lambda d: -packed[d]))
    else:
        clear = not ambiguity_check or len(set(strides)) == len(strides)
    check(
        clear,
        RuntimeError,
        "The tensor does not have unique dim order, or cannot map to exact one of the given memory "
        "formats.",
    )
    return order


@composite(METHOD)
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for reading."""
    return self.data_ptr()


@composite(METHOD)
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Any:
    """What a module takes for this tensor when it loads `other`: this one with its values, or with
    `assign` the other itself.

    >>> import ember as torch
    >>> torch.zeros(2).module_load(torch.ones(2))
    tensor([1., 1.])
    """
    if assign:
        return other.detach()
    return OPS["copy_"](self, other).detach()


@composite(METHOD)
def record_stream(self: Tensor, stream: Any) -> None:
    """Say that work of a stream uses this tensor, so that its memory is not given to other work
    before that is done. RuntimeError for a tensor that is not on a GPU."""
    check(
        self.is_cuda,
        RuntimeError,
        f"record_stream: the tensor is on {self.device}, which has no streams",
    )
    buffer = self._array.storage.buffer
    if hasattr(buffer, "used_by"):  # on a simulated GPU work is done when it is given
        buffer.used_by(stream.cuda_stream)


@composite(FUNCTION)
def detach_(input: Tensor) -> Tensor:
    """Cut a tensor from its history, and return it."""
    return input.detach_()


def _define_copy(name: str) -> None:
    def part(input: Any) -> Tensor:
        return getattr(input, name)().clone()  # type: ignore[no-any-return]

    part.__name__, part.__doc__ = f"{name}_copy", f"A copy of `Tensor.{name}()`."
    composite(FUNCTION)(part)


for _name in ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
    _define_copy(_name)
