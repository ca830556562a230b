"""Storages as users see them: bytes, typed views, sharing, sizes, `set_`."""

import copy
import os
import pickle

import pytest

import ember as torch
from ember.core import typed_storages


def bytes_of(*values):
    return torch.tensor(values, dtype=torch.uint8)


def test_what_a_storage_says_of_itself():
    tensor = torch.arange(4.0)
    storage = tensor[1:].untyped_storage()
    assert storage is tensor.untyped_storage() and storage == tensor.untyped_storage()
    assert hash(storage) == hash(tensor.untyped_storage())
    assert storage != torch.arange(4.0).untyped_storage()
    assert storage.nbytes() == storage.size() == len(storage) == 16
    assert storage.device == torch.device("cpu") and not storage.is_cuda
    assert storage.get_device() == -1 and storage.element_size() == 1
    assert storage.data_ptr() == tensor.data_ptr()
    assert tensor[1:].data_ptr() == storage.data_ptr() + 4
    assert storage.tolist() == [0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64]
    assert storage.type() == "torch.storage.UntypedStorage" and storage.untyped() is storage


def test_making_storages():
    assert torch.UntypedStorage(4).nbytes() == 4
    assert torch.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert torch.UntypedStorage().nbytes() == 0
    assert torch.UntypedStorage(4, device="meta").device.type == "meta"
    with pytest.raises(RuntimeError):
        torch.UntypedStorage(-1)


def test_how_storages_print():
    shown = repr(bytes_of(1, 2).untyped_storage())
    assert shown == " 1\n 2\n[torch.storage.UntypedStorage(device=cpu) of size 2]"
    shown = repr(torch.UntypedStorage(8, device="meta"))
    assert shown == "...\n[torch.storage.UntypedStorage(device=meta) of size 8]"
    shown = repr(torch.FloatStorage([1, 2]))
    what = "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 2]"
    assert shown == f" 1.0\n 2.0\n{what}"


def test_items_and_slices():
    tensor = bytes_of(0, 1, 2, 3)
    storage = tensor.untyped_storage()
    assert (storage[-1], storage[1]) == (3, 1)
    storage[0] = 300
    assert tensor.tolist() == [44, 1, 2, 3]
    part = storage[1:3]
    part[0] = 99
    assert part.tolist() == [99, 2] and tensor.tolist() == [44, 99, 2, 3]
    storage[2:] = 7
    assert tensor.tolist() == [44, 99, 7, 7]
    with pytest.raises(IndexError, match="index 9 out of range for storage of size 4"):
        storage[9]
    with pytest.raises(RuntimeError, match="slice with a step of 2"):
        storage[::2]


def test_copies_and_fills():
    tensor = bytes_of(1, 2, 3)
    storage = tensor.untyped_storage()
    assert storage.cpu() is storage and storage.to(device="cpu") is storage
    cloned = storage.clone()
    assert cloned != storage and cloned.tolist() == [1, 2, 3]
    version = tensor._version
    storage.fill_(5)
    assert tensor.tolist() == [5, 5, 5] and tensor._version > version
    storage.copy_(cloned)
    assert tensor.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="self was 3 bytes but src was 2 bytes"):
        storage.copy_(torch.UntypedStorage(2))


def test_meta_has_no_bytes():
    storage = torch.ones(2, device="meta").untyped_storage()
    assert storage.nbytes() == 8 and storage.data_ptr() == 0
    with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
        storage.tolist()
    assert storage.resize_(3).nbytes() == 3


def test_tensors_follow_a_storage_that_changes_its_size():
    tensor = bytes_of(1, 2, 3, 4)
    tensor.sum()
    storage = tensor.untyped_storage()
    storage.resize_(8)
    assert tensor.tolist() == [1, 2, 3, 4] and storage.nbytes() == 8
    storage[0] = 9
    assert tensor.tolist() == [9, 2, 3, 4]
    storage.resize_(0)
    assert storage.nbytes() == 0 and tensor.shape == (4,)
    storage.resize_(4).copy_(torch.UntypedStorage([5, 6, 7, 8]))
    assert tensor.tolist() == [5, 6, 7, 8]


def test_files_as_storages(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"\x01\x02\x03\x04")
    private = torch.UntypedStorage.from_file(str(path), False, 3)
    private[0] = 9
    assert private.tolist() == [9, 2, 3] and path.read_bytes() == b"\x01\x02\x03\x04"
    shared = torch.UntypedStorage.from_file(path, shared=True, nbytes=6)
    shared[5] = 7
    assert path.read_bytes() == b"\x01\x02\x03\x04\x00\x07"
    with pytest.raises(RuntimeError, match="6 bytes, 99 were asked for"):
        torch.UntypedStorage.from_file(path, False, 99)


def test_memory_that_forked_processes_share():
    tensor = torch.zeros(2)
    assert not tensor.is_shared()
    tensor.share_memory_()
    assert tensor.is_shared() and tensor.untyped_storage().is_shared()
    child = os.fork()
    if not child:
        tensor[0] = 5
        os._exit(0)
    os.waitpid(child, 0)
    assert tensor.tolist() == [5, 0]


def test_swapping_bytes():
    tensor = torch.tensor([1, 256], dtype=torch.int16)
    tensor.untyped_storage().byteswap(torch.int16)
    assert tensor.tolist() == [256, 1]


def test_copy_and_pickle():
    storage = torch.UntypedStorage([1, 2])
    for found in (copy.copy(storage), copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))):
        assert found.tolist() == [1, 2] and found != storage
    first, second = copy.deepcopy([storage, storage])
    assert first is second
    typed = torch.IntStorage([3])
    found = pickle.loads(pickle.dumps(typed))
    assert isinstance(found, torch.IntStorage) and found.tolist() == [3]
    assert pickle.loads(pickle.dumps(torch.UntypedStorage(3, device="meta"))).nbytes() == 3


def test_typed_storages():
    storage = torch.FloatStorage([1, 2, 3])
    assert storage.dtype is torch.float32 and len(storage) == storage.size() == 3
    assert storage.nbytes() == 12 and storage.element_size() == 4
    assert storage.type() == "torch.FloatStorage"
    assert storage.pickle_storage_type() == "FloatStorage"
    assert isinstance(storage, torch.FloatStorage) and isinstance(storage, torch.TypedStorage)
    assert not isinstance(storage, torch.DoubleStorage)
    storage[0] = 5
    assert storage[0] == 5 and list(storage) == [5, 2, 3]
    assert storage.clone() != storage and storage.cpu() == storage
    assert storage.fill_(4).tolist() == [4, 4, 4]
    assert storage.copy_(torch.IntStorage([1, 2, 3])).tolist() == [1, 2, 3]
    assert storage.resize_(2).tolist() == [1, 2]
    ints = torch.TypedStorage(wrap_storage=storage.untyped(), dtype=torch.int32)
    assert ints.size() == 2 and ints.data_ptr() == storage.data_ptr()
    assert torch.TypedStorage(3, dtype=torch.int64).nbytes() == 24
    assert torch.FloatStorage.dtype is torch.float32
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        storage[0:1]
    with pytest.raises(TypeError, match="must be UntypedStorage"):
        torch.TypedStorage(wrap_storage="x", dtype=torch.int32)


def test_the_storage_method_warns_once(monkeypatch):
    monkeypatch.setattr(typed_storages, "_warned", [])
    tensor = torch.arange(3)
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        storage = tensor.storage()
    assert tensor.storage().tolist() == [0, 1, 2] and isinstance(storage, torch.LongStorage)
    assert tensor.storage_type() is torch.LongStorage
    assert tensor._typed_storage() == storage


def test_set_views_other_memory():
    source = torch.arange(4.0)
    storage = source.untyped_storage()
    tensor = torch.zeros(2)
    assert tensor.set_(storage, 1, (2,), (1,)) is tensor
    assert tensor.tolist() == [1, 2]
    tensor[0] = 9
    assert source.tolist() == [0, 9, 2, 3]
    assert tensor.set_(storage, 0, (2, 2)).tolist() == [[0, 9], [2, 3]]
    assert tensor.set_(storage).tolist() == [0, 9, 2, 3]
    assert tensor.set_(source[2:]).tolist() == [2, 3]
    assert tensor.set_(source._typed_storage(), 3, (1,)).tolist() == [3]
    assert tensor.set_().shape == (0,)
    assert tensor.set_(storage, 2, (2,), (0,)).tolist() == [2, 2]


def test_set_grows_a_storage_that_is_too_small():
    source = torch.arange(2.0)
    tensor = torch.zeros(1).set_(source.untyped_storage(), 0, (3,), (1,))
    assert tensor[:2].tolist() == [0, 1] and source.untyped_storage().nbytes() == 12
    assert source.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((-1, (2,), (1,)), RuntimeError, "invalid storage offset -1"),
        ((0, (2,), (-1,)), RuntimeError, "cannot be negative"),
        ((0, (-2,), (1,)), RuntimeError, "cannot be negative"),
        ((0, (2, 2), (1,)), RuntimeError, "unequal size length"),
    ],
)
def test_layouts_that_set_refuses(arguments, kind, message):
    tensor = torch.zeros(2)
    with pytest.raises(kind, match=message):
        tensor.set_(torch.arange(4.0).untyped_storage(), *arguments)
    assert tensor.tolist() == [0, 0]


def test_sources_that_set_refuses():
    tensor = torch.zeros(2)
    with pytest.raises(RuntimeError, match="Expected a Storage of type float"):
        tensor.set_(torch.LongStorage([1]))
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        tensor.set_(torch.arange(3))
    with pytest.raises(TypeError, match="invalid source"):
        tensor.set_(3)
    with pytest.raises(RuntimeError, match="on a storage on different device|different device"):
        tensor.set_(torch.ones(2, device="meta").untyped_storage())
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.set_(torch.zeros(2).untyped_storage())
    with torch.no_grad():
        assert leaf.set_(torch.zeros(3).untyped_storage()).tolist() == [0, 0, 0]


def test_files_as_tensors(tmp_path):
    path = tmp_path / "numbers"
    shared = torch.from_file(str(path), shared=True, size=4, dtype=torch.int16)
    shared.copy_(torch.arange(4))
    private = torch.from_file(path, size=3, dtype=torch.int16)
    private[0] = 9
    assert private.tolist() == [9, 1, 2] and shared.tolist() == [0, 1, 2, 3]
    assert torch.from_file(path).shape == (0,)
    with pytest.raises(RuntimeError, match="8 bytes, 400 were asked for"):
        torch.from_file(path, size=100)
    with pytest.raises(RuntimeError, match="only CPU tensors"):
        torch.from_file(path, size=1, device="meta")


def test_what_is_a_storage():
    assert torch.is_storage(torch.UntypedStorage(1)) and torch.is_storage(torch.FloatStorage(1))
    assert not torch.is_storage(torch.ones(1))
    assert torch.Storage is torch.FloatStorage
