"""Packed and padded sequences."""

import copy
import pickle

import pytest

import ember as torch
from ember.nn.utils import rnn

PADDED = torch.tensor([[1, 2, 3], [4, 0, 5], [6, 0, 0]])  # three steps of three sequences


def test_packing_takes_step_by_step():
    packed = rnn.pack_padded_sequence(PADDED, [3, 1, 2], enforce_sorted=False)
    assert packed.data.tolist() == [1, 3, 2, 4, 5, 6]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [0, 2, 1]
    assert packed.unsorted_indices.tolist() == [0, 2, 1]
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert padded.tolist() == PADDED.tolist() and lengths.tolist() == [3, 1, 2]


def test_batch_first_padding_value_and_total_length():
    packed = rnn.pack_padded_sequence(PADDED.t(), torch.tensor([3, 1, 2]), True, False)
    padded, _ = rnn.pad_packed_sequence(packed, True, -1.0, 4)
    assert padded.tolist() == [[1, 4, 6, -1], [2, -1, -1, -1], [3, 5, -1, -1]]
    with pytest.raises(ValueError, match="total_length=2 and max sequence length being 3"):
        rnn.pad_packed_sequence(packed, total_length=2)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 3], "must be sorted in decreasing order when `enforce_sorted` is True"),
        ([3, 2], r"Expected `len\(lengths\)` to be equal to batch_size, but got 2"),
        ([3, 2, 0], "Length of all samples has to be greater than 0"),
        ([4, 2, 1], "the longest length is 4, but the padded batch has 3 steps"),
        (
            torch.tensor([[3, 2, 1]]),
            "'lengths' argument should be a 1D CPU int64 tensor, but got 2D cpu Long tensor",
        ),
    ],
)
def test_refused_lengths(lengths, message):
    with pytest.raises(RuntimeError, match=message):
        rnn.pack_padded_sequence(PADDED, lengths)


def test_nothing_cannot_be_packed():
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        rnn.pack_padded_sequence(torch.zeros(3, 0), [])


def test_gradients_go_through():
    x = torch.ones(3, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(x, [3, 1])
    padded, _ = rnn.pad_packed_sequence(packed)
    (padded * torch.tensor([[1.0, 2], [3, 4], [5, 6]])).sum().backward()
    assert x.grad.tolist() == [[1, 2], [3, 0], [5, 0]]


def test_conversions_keep_batch_sizes():
    packed = rnn.pack_padded_sequence(PADDED, [3, 2, 1])
    double = packed.double()
    assert double.data.dtype == torch.float64 and double.batch_sizes.dtype == torch.int64
    assert packed.cpu() is packed and packed.to("cpu") is packed and not packed.is_cuda
    assert packed.int().data.dtype == torch.int32 and packed.byte().data.dtype == torch.uint8
    data, sizes, sorted_indices, unsorted_indices = packed
    assert data is packed.data and sizes is packed.batch_sizes
    assert sorted_indices is None and unsorted_indices is None
    for again in (copy.deepcopy(double), pickle.loads(pickle.dumps(double))):
        assert type(again) is rnn.PackedSequence and again.data.tolist() == double.data.tolist()
    with pytest.raises(AssertionError, match="a list or tuple of length 2"):
        rnn.PackedSequence(PADDED)


def test_pad_sequence():
    parts = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4, 5, 6])]
    assert rnn.pad_sequence(parts).tolist() == [[1, 3, 4], [2, 0, 5], [0, 0, 6]]
    left = rnn.pad_sequence(parts, True, 9, padding_side="left")
    assert left.tolist() == [[9, 1, 2], [9, 9, 3], [4, 5, 6]]
    assert rnn.pad_sequence(iter(parts)).shape == (3, 3)
    deep = rnn.pad_sequence([torch.ones(2, 3), torch.ones(1, 3)], batch_first=True)
    assert deep.shape == (2, 2, 3) and deep[1, 1].tolist() == [0, 0, 0]
    for wrong, message in (
        (3, "Expected iterable for input sequences, but got arg of type"),
        ([], "received an empty list of sequences"),
    ):
        with pytest.raises(RuntimeError, match=message):
            rnn.pad_sequence(wrong)
    with pytest.raises(RuntimeError, match="one of left or right, but got up"):
        rnn.pad_sequence(parts, padding_side="up")


def test_there_and_back():
    parts = [torch.tensor([1.0, 2]), torch.tensor([3.0]), torch.tensor([4.0, 5, 6])]
    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    assert [p.tolist() for p in rnn.unpack_sequence(packed)] == [p.tolist() for p in parts]
    padded = rnn.pad_sequence(parts)
    back = rnn.unpad_sequence(padded, torch.tensor([2, 1, 3]))
    assert [p.tolist() for p in back] == [p.tolist() for p in parts]
    assert rnn.invert_permutation(None) is None
