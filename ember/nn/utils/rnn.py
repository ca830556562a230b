"""Sequences of different lengths: padded into one tensor, or packed without the padding."""

from collections import namedtuple

import numpy as np

import ember.nn.functional as F
import ember.ops as ops
from ember import dtypes
from ember.core.tensor import Tensor
from ember.errors import check

PackedSequence_ = namedtuple(
    "PackedSequence_",
    ("data", "batch_sizes", "sorted_indices", "unsorted_indices"),
    defaults=(None, None, None),
)


class PackedSequence(PackedSequence_):
    """Sequences of different lengths as one tensor without padding, step by step.

    `data` (Σ lengths, ...) holds all first elements, then all second elements, ...;
    `batch_sizes[t]`, always on the CPU, is how many sequences are longer than t; sorted_indices
    and unsorted_indices say how the batch was sorted by length. Made by `pack_padded_sequence`.

    >>> import ember as torch
    >>> from ember.nn.utils.rnn import pack_sequence
    >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            check(
                isinstance(data, (list, tuple)) and len(data) == 2,
                AssertionError,
                "Expected data to be a list or tuple of length 2",
            )
            data, batch_sizes = data
        check(
            batch_sizes.device.type == "cpu",
            ValueError,
            lambda: (
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequence in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_sequence.html"
            ),
        )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """`data.to(...)`; the index tensors follow its device, `batch_sizes` stays."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (
            None if index is None else index.to(data.device)
            for index in (self.sorted_indices, self.unsorted_indices)
        )  # fmt: skip
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, device=None, non_blocking=False):
        """The same on a GPU, the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def cpu(self):
        """The same on the CPU."""
        return self.to("cpu")

    def pin_memory(self):
        """The same in page-locked memory."""
        indices = (
            None if index is None else index.pin_memory()
            for index in (self.sorted_indices, self.unsorted_indices)
        )  # fmt: skip
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def double(self):
        """The data as float64."""
        return self.to(dtype=dtypes.float64)

    def float(self):
        """The data as float32."""
        return self.to(dtype=dtypes.float32)

    def half(self):
        """The data as float16."""
        return self.to(dtype=dtypes.float16)

    def long(self):
        """The data as int64."""
        return self.to(dtype=dtypes.int64)

    def int(self):
        """The data as int32."""
        return self.to(dtype=dtypes.int32)

    def short(self):
        """The data as int16."""
        return self.to(dtype=dtypes.int16)

    def char(self):
        """The data as int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self):
        """The data as uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation):
    """The permutation that undoes the given one; None for None.

    >>> import ember as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = ops.empty_like(permutation)
    return inverse.scatter_(0, permutation, ops.arange(len(permutation), device=permutation.device))


def _host_lengths(lengths, batch):
    """The lengths as an int64 vector on the host, checked."""
    if isinstance(lengths, Tensor):
        check(
            lengths.dim() == 1 and lengths.device.type == "cpu",
            RuntimeError,
            lambda: (
                "'lengths' argument should be a 1D CPU int64 tensor, but got "
                f"{lengths.dim()}D {lengths.device} {lengths.dtype.title} tensor"
            ),
        )
        lengths = lengths.tolist()
    lengths = np.array([int(n) for n in lengths], np.int64)
    check(
        len(lengths) == batch,
        RuntimeError,
        lambda: (
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        ),
    )
    return lengths


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """A padded batch (T, N, ...), or (N, T, ...) if `batch_first`, without its padding.

    `lengths` is a list or a 1-D CPU tensor, longest first, or in any order if not
    `enforce_sorted`. RuntimeError for lengths on a GPU, unsorted, not positive or above T.

    >>> import ember as torch
    >>> padded = torch.tensor([[1, 3], [2, 0]])
    >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1]).data
    tensor([1, 3, 2])
    """
    check(input.numel() > 0, RuntimeError, "Cannot pack empty tensors.")
    batch, steps = input.size(0 if batch_first else 1), input.size(1 if batch_first else 0)
    lengths = _host_lengths(lengths, batch)
    sorted_indices = None
    order = np.arange(batch)
    if not enforce_sorted:
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        sorted_indices = ops.from_numpy(order).to(input.device)
    check(
        bool((np.diff(lengths) <= 0).all()),
        RuntimeError,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
        "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
        "requirement if you do not need ONNX exportability.",
    )
    check(
        lengths[-1] > 0,
        RuntimeError,
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that "
        "is <= 0",
    )
    check(
        lengths[0] <= steps,
        RuntimeError,
        lambda: f"the longest length is {lengths[0]}, but the padded batch has {steps} steps",
    )
    step, row = np.nonzero(np.arange(lengths[0])[:, None] < lengths)
    # One gather from the batch laid out flat takes the elements in the packed order.
    place = order[row] * steps + step if batch_first else step * batch + order[row]
    data = input.flatten(0, 1).index_select(0, ops.from_numpy(place).to(input.device))
    batch_sizes = ops.from_numpy(np.bincount(step))
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded batch (T, N, ...) of a PackedSequence, and the lengths, on the CPU.

    T is the greatest length, or `total_length` if given (ValueError if that is less).

    >>> import ember as torch
    >>> from ember.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> pad_packed_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
    (tensor([[1, 3],
            [2, 0]]), tensor([2, 1]))
    """
    data, batch_sizes = sequence.data, np.array(sequence.batch_sizes.tolist(), np.int64)
    longest, batch = len(batch_sizes), int(batch_sizes[0])
    steps = longest if total_length is None else total_length
    check(
        steps >= longest,
        ValueError,
        lambda: (
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        ),
    )
    order = np.arange(batch)
    if sequence.sorted_indices is not None:
        order = np.array(sequence.sorted_indices.tolist(), np.int64)
    row = np.concatenate([np.arange(size) for size in batch_sizes])
    step = np.repeat(np.arange(longest), batch_sizes)
    shape = (batch, steps) if batch_first else (steps, batch)
    place = order[row] * steps + step if batch_first else step * batch + order[row]
    flat = data.new_full((batch * steps, *data.shape[1:]), padding_value)
    flat = flat.index_copy(0, ops.from_numpy(place).to(data.device), data)
    lengths = np.empty(batch, np.int64)
    lengths[order] = (batch_sizes[:, None] > np.arange(batch)).sum(0)
    return flat.unflatten(0, shape), ops.from_numpy(lengths)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (Lᵢ, ...) as one padded batch (max L, N, ...), or (N, max L, ...) if `batch_first`.

    >>> import ember as torch
    >>> ones = torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(3)], batch_first=True)
    >>> ones
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if not isinstance(sequences, (list, tuple, Tensor)):
        check(
            hasattr(sequences, "__iter__"),
            RuntimeError,
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}",
        )
        sequences = tuple(sequences)
    sequences = sequences.unbind(0) if isinstance(sequences, Tensor) else sequences
    check(len(sequences) > 0, RuntimeError, "received an empty list of sequences")
    check(
        padding_side in ("left", "right"),
        RuntimeError,
        f"Expected padding_side to be one of left or right, but got {padding_side}.",
    )
    longest = max(sequence.size(0) for sequence in sequences)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.size(0)
        amount = (missing, 0) if padding_side == "left" else (0, missing)
        border = (0, 0) * (sequence.dim() - 1) + amount
        sequence = F.pad(sequence, border, value=padding_value) if missing else sequence
        padded.append(sequence.to(sequences[0].dtype))
    return ops.stack(padded, dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors (Lᵢ, ...) of a padded batch, as a list of views.

    >>> import ember as torch
    >>> padded = torch.tensor([[1, 2], [3, 0]])
    >>> torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), lengths.tolist(), strict=True)]


def pack_sequence(sequences, enforce_sorted=True):
    """Tensors (Lᵢ, ...) as a PackedSequence; longest first unless not `enforce_sorted`.

    >>> import ember as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = [sequence.size(0) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors (Lᵢ, ...) of a PackedSequence, in the order they were given in.

    >>> import ember as torch
    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> torch.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]
