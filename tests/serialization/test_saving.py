"""torch.save: the bytes of the archive, sharing, failures, and coming back."""

import io
import os
import pickle
import zipfile
import zlib
from collections import OrderedDict

import pytest

import ember as torch


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def there_and_back(obj, **options):
    return torch.load(io.BytesIO(saved(obj, **options)))


def test_the_records_of_an_archive():
    archive = zipfile.ZipFile(io.BytesIO(saved([torch.arange(3), torch.zeros(0)])))
    assert archive.testzip() is None
    assert archive.namelist() == [
        "archive/data.pkl",
        "archive/.format_version",
        "archive/.storage_alignment",
        "archive/byteorder",
        "archive/data/0",
        "archive/data/1",
        "archive/version",
        "archive/.data/serialization_id",
    ]
    assert archive.read("archive/.format_version") == b"1"
    assert archive.read("archive/.storage_alignment") == b"64"
    assert archive.read("archive/byteorder") == b"little"
    assert archive.read("archive/version") == b"3\n"
    assert archive.read("archive/data/0") == b"".join(i.to_bytes(8, "little") for i in range(3))


def test_records_start_at_multiples_of_64():
    content = saved({str(n): torch.ones(n) for n in range(1, 30)})
    for entry in zipfile.ZipFile(io.BytesIO(content)).infolist():
        header = content[entry.header_offset : entry.header_offset + 30]
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        assert (entry.header_offset + 30 + names) % 64 == 0, entry.filename


# What PyTorch 2.13 writes for {"w": torch.arange(6.0), "n": None}, up to its random identity.
PICKLE = (
    b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\x00\x00"
    b"\x00storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpuq\x06K"
    b"\x06tq\x07QK\x00K\x06\x85q\x08K\x01\x85q\t\x89ccollections\nOrderedDict\nq\n)Rq\x0btq\x0cRq\r"
    b"X\x01\x00\x00\x00nq\x0eNu."
)


def test_the_bytes_are_those_of_pytorch():
    content = saved({"w": torch.arange(6.0), "n": None})
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.read("archive/data.pkl") == PICKLE
    identity = archive.getinfo("archive/.data/serialization_id").header_offset
    assert (len(content), identity) == (1577, 850)
    assert zlib.crc32(content[:identity]) == 3868634832


def test_the_folder_is_named_after_the_file(tmp_path):
    torch.save(1, tmp_path / "a.b.pth")
    assert zipfile.ZipFile(tmp_path / "a.b.pth").namelist()[0] == "a.b/data.pkl"
    assert torch.load(tmp_path / "a.b.pth") == 1


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_there_and_back(legacy, protocol):
    base = torch.arange(12.0).view(3, 4)
    obj = {
        "views": [base[1:, ::2], base.t(), base],
        "dtypes": [torch.ones(2, dtype=t) for t in (torch.bool, torch.bfloat16, torch.complex128)],
        "eight": torch.ones(3).to(torch.float8_e4m3fn),
        "half": torch.float16,
        "device": torch.device("cpu"),
        "nested": OrderedDict(a=[(1, {2: None})]),
    }
    options = {"_use_new_zipfile_serialization": not legacy, "pickle_protocol": protocol}
    found = there_and_back(obj, **options)
    assert found["nested"] == obj["nested"] and found["half"] is torch.float16
    assert found["device"] == torch.device("cpu")
    for before, after in zip(obj["views"], found["views"], strict=True):
        assert torch.equal(before, after) and before.stride() == after.stride()
        assert after.storage_offset() == before.storage_offset()
    assert len({t.untyped_storage().data_ptr() for t in found["views"]}) == 1
    assert [t.dtype for t in found["dtypes"]] == [t.dtype for t in obj["dtypes"]]
    assert all(t.tolist() == [1, 1] for t in found["dtypes"])
    assert found["eight"].dtype is torch.float8_e4m3fn
    assert found["eight"].float().tolist() == [1, 1, 1]


def test_a_slice_saves_its_whole_storage():
    big = torch.zeros(5000)
    assert len(saved(big[:10])) > 20000 > 2000 > len(saved(big[:10].clone()))
    assert len(saved([big, big[5:], big.view(50, 100)])) < 22500
    assert there_and_back(big[:10]).untyped_storage().nbytes() == 20000


def test_a_tensor_with_history_comes_back_as_a_leaf():
    leaf = torch.ones(2, requires_grad=True)
    found = there_and_back(leaf * 2)
    assert found.tolist() == [2, 2] and found.requires_grad and found.is_leaf


def test_one_storage_has_one_dtype():
    a = torch.ones(2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([a, a.view(torch.int32)])


def test_storages():
    storage = torch.arange(3.0).untyped_storage()
    assert there_and_back(storage).tolist() == storage.tolist()
    assert there_and_back(torch.IntStorage([1, 2])).tolist() == [1, 2]


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    torch.save([1], path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        torch.save([torch.ones(2), lambda: 1], path)

    assert torch.load(path) == [1]
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_save_that_fails_while_writing(tmp_path, monkeypatch):
    from ember.serialization import zip_format

    path = tmp_path / "model.pt"
    torch.save([1], path)

    def fail(self):
        raise OSError("No space left on device")

    monkeypatch.setattr(zip_format.ZipWriter, "finish", fail)
    with pytest.raises(OSError, match="No space left"):
        torch.save([2], path)
    monkeypatch.undo()
    assert torch.load(path) == [1]
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_save_keeps_links_and_permissions(tmp_path):
    path, link = tmp_path / "model.pt", tmp_path / "latest.pt"
    torch.save([1], path)
    path.chmod(0o640)
    link.symlink_to(path)
    torch.save([2], link)
    assert link.is_symlink() and torch.load(path) == [2]
    assert path.stat().st_mode & 0o777 == 0o640


def test_where_to_save():
    with pytest.raises(AttributeError, match="file-like object with a 'write' attribute"):
        torch.save(1, 3)
    with pytest.raises(RuntimeError, match="Parent directory .*nowhere does not exist"):
        torch.save(1, "/nowhere/a.pt")
    with pytest.raises(RuntimeError, match="invalid file name"):
        torch.save(1, "")


def test_a_file_that_can_only_be_written():
    class Pipe:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(bytes(data))

    pipe = Pipe()
    torch.save(torch.arange(3), pipe)
    assert torch.load(io.BytesIO(b"".join(pipe.parts))).tolist() == [0, 1, 2]


def test_a_pickle_module_of_the_users():
    class Module:
        Pickler, Unpickler = pickle.Pickler, pickle.Unpickler

    content = saved({"a": torch.ones(2)}, pickle_module=Module)
    found = torch.load(io.BytesIO(content), pickle_module=Module)
    assert found["a"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(io.BytesIO(content), pickle_module=Module, weights_only=True)


def test_whole_modules_have_the_names_of_pytorch():
    model = torch.nn.Sequential(torch.nn.LSTMCell(2, 3), torch.nn.Softmax(1))
    data = zipfile.ZipFile(io.BytesIO(saved(model))).read("archive/data.pkl")
    assert b"ctorch.nn.modules.container\nSequential\n" in data
    assert b"ctorch.nn.modules.rnn\nLSTMCell\n" in data
    assert b"ctorch.nn.modules.activation\nSoftmax\n" in data
    assert b"ember" not in data
    found = torch.load(io.BytesIO(saved(model)), weights_only=False)
    assert repr(found) == repr(model)


def test_huge_sizes_go_to_the_64_bit_fields():
    from ember.serialization.zip_format import ZipWriter, _Entry

    entry = ZipWriter._directory_entry(_Entry(b"a/b", 0x0808, 1, 5 << 32, 6 << 32))
    assert entry[20:28] == b"\xff" * 8 and entry[42:46] == b"\xff" * 4
    assert entry.endswith(
        b"a/b\x01\x00\x18\x00" + b"\0\0\0\0\x05\0\0\0" * 2 + b"\0\0\0\0\x06\0\0\0"
    )
