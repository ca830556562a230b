"""Tensors over memory that something else has."""

import array

import pytest

import ember as torch


def test_storages_are_shared_without_looking_at_their_elements():
    storage = torch.arange(4, dtype=torch.float32).untyped_storage()
    part = torch.asarray(storage[4:8], dtype=torch.uint8)
    assert part.tolist() == [0, 0, 128, 63] and part.data_ptr() == storage.data_ptr() + 4
    values = torch.asarray(storage, dtype=torch.float32)
    values[0] = 5
    assert torch.asarray(storage, dtype=torch.float32).tolist() == [5, 1, 2, 3]
    assert torch.asarray(storage, dtype=torch.float32, copy=True).data_ptr() != values.data_ptr()
    assert torch.asarray(storage).dtype == torch.int64
    with pytest.raises(ValueError, match="no whole number of torch.int64"):
        torch.asarray(storage[:4])


def test_buffers_are_shared():
    memory = bytearray(b"\x00\x00\x80\x3f" * 2)
    shared = torch.asarray(memory, dtype=torch.float32, copy=False)
    assert shared.tolist() == [1, 1]
    shared[0] = 0
    assert memory[:4] == bytes(4)
    assert torch.asarray(array.array("f", [1, 2])).tolist() == [1, 2]
    assert torch.asarray(memoryview(memory), dtype=torch.int32).shape == (2,)
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.asarray(bytearray(7), dtype=torch.float32)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
        torch.asarray([1, 2], copy=False)
