"""Memory shared by DLPack."""

import numpy as np
import pytest

import ember as torch
from ember.utils.dlpack import from_dlpack, to_dlpack


def test_memory_is_shared_both_ways():
    array = np.arange(4.0)
    tensor = torch.from_dlpack(array)
    tensor[1] = 9
    assert array[1] == 9 and tensor.dtype is torch.float64
    back = np.from_dlpack(tensor[::2])
    assert back.tolist() == [0.0, 2.0] and np.shares_memory(back, array)
    assert torch.from_dlpack(tensor).data_ptr() == tensor.data_ptr()
    assert torch.from_dlpack(array, copy=True).data_ptr() != tensor.data_ptr()
    assert tensor.__dlpack_device__() == (1, 0)
    assert to_dlpack(tensor) is not None and from_dlpack is torch.from_dlpack


def test_what_cannot_be_shared():
    with pytest.raises(BufferError, match="require gradient, use tensor.detach"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="Only tensors on the CPU"):
        np.from_dlpack(torch.ones(2, device="meta"))


def test_dlpack_keywords():
    tensor = torch.arange(3.0)
    assert tensor.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0)) is not None
    copied = np.from_dlpack(tensor, copy=True)
    copied[0] = 9
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        tensor.__dlpack__(nonsense=1)
