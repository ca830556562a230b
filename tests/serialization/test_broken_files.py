"""Files that are cut off, changed, or made to do harm: a clear error, and no memory taken."""

import contextlib
import io
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import ember as torch
from ember.serialization.weights_unpickler import load_weights

EXPECTED = (RuntimeError, EOFError, pickle.UnpicklingError)


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def rebuilt(obj, change):
    """The archive of `obj` with each record passed through `change(name, data)`."""
    source, target = zipfile.ZipFile(io.BytesIO(saved(obj))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            data = change(name.partition("/")[2], source.read(name))
            if data is not None:
                archive.writestr(name, data)
    return io.BytesIO(target.getvalue())


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_that_is_cut_off(legacy, weights_only):
    content = saved({"a": torch.ones(20)}, _use_new_zipfile_serialization=not legacy)
    for length in [*range(0, len(content) - 1, 29), len(content) - 1]:
        with pytest.raises(EXPECTED):
            torch.load(io.BytesIO(content[:length]), weights_only=weights_only)


def test_the_messages_of_files_that_are_cut_off():
    content = saved(torch.ones(200))
    with pytest.raises(RuntimeError, match="failed finding central directory.*corrupted"):
        torch.load(io.BytesIO(content[:500]))
    content = saved(torch.ones(200), _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="unexpected EOF, expected 100 more bytes"):
        torch.load(io.BytesIO(content[:-100]))
    with pytest.raises(EOFError, match="Ran out of input.*seek"):
        torch.load(io.BytesIO(b""))


def test_files_of_something_else():
    for content in (b"abc", b"\x89PNG\r\n\x1a\n", b"<html>", pickle.dumps({"a": 1}), b"." * 999):
        with pytest.raises(EXPECTED):
            torch.load(io.BytesIO(content))
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file?"):
        torch.load(io.BytesIO(pickle.dumps({"a": 1})), weights_only=False)
    for protocol in (2, 4, 5):
        content = pickle.dumps({"a": 1}, protocol)
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed.*pickle.load"):
            torch.load(io.BytesIO(content))
        with pytest.raises(RuntimeError, match="magic number.*a pickled dict, as pickle.dump"):
            torch.load(io.BytesIO(content))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("code/a.py", "")
    target.seek(0)
    with pytest.raises(RuntimeError, match="not one of torch.save"):
        torch.load(target)


def test_what_is_no_file():
    with pytest.raises(AttributeError, match="only torch.load from a file that is seekable"):
        torch.load(3)
    with pytest.raises(TypeError, match="opened for reading bytes"):
        torch.load(io.StringIO("a"))
    with pytest.raises(FileNotFoundError):
        torch.load("/nowhere/a.pt")
    with pytest.raises(TypeError, match="map_location"):
        torch.load(io.BytesIO(saved(1)), map_location=3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("legacy", [False, True])
def test_changed_bytes_give_an_error_or_data(seed, legacy):
    content = saved({"a": torch.ones(3), "b": [1, "x"]}, _use_new_zipfile_serialization=not legacy)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        changed = bytearray(content)
        for position in rng.integers(0, len(content), 3):
            changed[position] = rng.integers(256)
        with contextlib.suppress(EXPECTED):
            torch.load(io.BytesIO(changed))


def test_a_record_that_is_missing():
    with pytest.raises(RuntimeError, match="data/0"):
        torch.load(rebuilt(torch.ones(2), lambda name, data: None if name == "data/0" else data))


def test_a_record_of_another_size():
    file = rebuilt(torch.ones(2), lambda name, data: data * 2 if name == "data/0" else data)
    with pytest.raises(RuntimeError, match="data/0 has 16 bytes, its tensors say 8"):
        torch.load(file)


def with_pickle(old, new):
    def change(name, data):
        if name != "data.pkl":
            return data
        assert data.count(old) == 1
        return data.replace(old, new)

    return change


def test_a_wrong_checksum():
    content = saved({"key": 1})
    with pytest.raises(RuntimeError, match="wrong checksum of data.pkl"):
        torch.load(io.BytesIO(content.replace(b"key", b"kex")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # numel of the storage: 8 -> 2**31 - 1
        (b"K\x08tq", b"J\xff\xff\xff\x7ftq", "data/0 has 32 bytes"),
        (b"K\x08tq", b"J\xff\xff\xff\xfftq", "-1 elements"),
        # the offset, the size and the stride
        (b"QK\x00K\x08\x85", b"QK\x01K\x08\x85", "out of bounds for storage of size 32"),
        (b"QK\x00K\x08\x85", b"QJ\xff\xff\xff\xffK\x08\x85", "invalid storage offset -1"),
        (b"QK\x00K\x08\x85", b"QK\x00J\xff\xff\xff\x7f\x85", "out of bounds"),
        (b"QK\x00K\x08\x85", b"QK\x00J\xfe\xff\xff\xff\x85", "cannot be negative"),
        (b"K\x01\x85", b"J\xff\xff\xff\xff\x85", "cannot be negative"),
        (b"K\x01\x85", b"K\x09\x85", "out of bounds"),
        (b"K\x01\x85", b"K\x01K\x01\x86", "unequal size length"),
        (b"K\x01\x85", b"G\x3f\xf0\x00\x00\x00\x00\x00\x00\x85", "tuples of integers"),
        # the storage's class and key
        (b"torch\nFloatStorage", b"torch\nFloatTensor", "FloatTensor"),
        (b"X\x01\x00\x00\x000", b"X\x04\x00\x00\x00../0", "file not found"),
    ],
)
def test_layouts_that_reach_outside(old, new, message):
    file = rebuilt(torch.ones(8), with_pickle(old, new))
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=message):
        torch.load(file)


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(function):
    def run():
        with pytest.raises(EXPECTED):
            function()

    return run


LARGE = 2**40


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x04\x8d" + struct.pack("<Q", LARGE) + b"x.",  # text
        b"\x80\x04\x8e" + struct.pack("<Q", LARGE) + b"x.",  # bytes
        b"\x80\x05\x96" + struct.pack("<Q", LARGE) + b"x.",  # a bytearray
        b"\x80\x02X\xff\xff\xff\xff" + b"x.",
        b"\x80\x02\x8b\xff\xff\xff\x7f" + b"x.",  # a number of many digits
        b"\x80\x02Nr\xff\xff\xff\xff0" * 3,  # a far place in the memo, and no end
    ],
)
def test_lengths_are_checked_before_memory_is_taken(pickled):
    assert peak_of(refused(lambda: load_weights(io.BytesIO(pickled)))) < 2**20


def test_storages_are_checked_before_memory_is_taken():
    content = saved(torch.ones(8), _use_new_zipfile_serialization=False)
    assert content.count(b"K\x08Nt") == 1
    content = content.replace(b"K\x08Nt", b"J\xff\xff\xff\x7fNt")
    assert peak_of(refused(lambda: torch.load(io.BytesIO(content)))) < 2**20
    file = rebuilt(torch.ones(8), with_pickle(b"K\x08tq", b"J\xff\xff\xff\x7ftq"))
    assert peak_of(refused(lambda: torch.load(file))) < 2**20


def test_a_bomb_of_zeros_is_refused():
    content = bytearray(saved(torch.zeros(8)))
    entry = zipfile.ZipFile(io.BytesIO(content)).getinfo("archive/data/0")
    place = content.rindex(b"archive/data/0") - 46
    assert content[place : place + 4] == b"PK\x01\x02" and entry.file_size == 32
    content[place + 10] = 8  # it says that it is compressed,
    content[place + 24 : place + 28] = struct.pack("<I", 2**31)  # from two gigabytes
    assert peak_of(refused(lambda: torch.load(io.BytesIO(content)))) < 2**20


def test_numbers_of_a_legacy_storage_disagree():
    content = saved(torch.ones(8), _use_new_zipfile_serialization=False)
    changed = content[:-40] + struct.pack("<q", 7) + content[-32:]
    with pytest.raises(RuntimeError, match="7 elements, and its tensors 8"):
        torch.load(io.BytesIO(changed))
