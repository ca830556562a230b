"""The formats before archives: rows of pickles, views with metadata, modules with source, tar."""

import io
import pickle
import struct
import tarfile

import pytest

import ember as torch
from ember.serialization.legacy import MAGIC_NUMBER, PROTOCOL_VERSION


class ById(pickle._Pickler):
    """Writes `Named` as a global of PyTorch's, and `Id` as a persistent id."""

    def persistent_id(self, obj):
        return obj.value if isinstance(obj, Id) else None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Named):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        else:
            super().save(obj, save_persistent_id)


class Id:
    def __init__(self, *value):
        self.value = value if len(value) > 1 else value[0]


class Named:
    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    """Pickles as a call of a `Named`."""

    def __init__(self, module, name, *arguments):
        self.named, self.arguments = Named(module, name), arguments

    def __reduce__(self):
        return _Callable(self.named), self.arguments


class _Callable(Named):
    def __init__(self, named):
        super().__init__(named.module, named.name)

    def __call__(self):
        raise AssertionError("only pickled")


FLOATS = Named("torch", "FloatStorage")


def pickled(obj, protocol=2):
    stream = io.BytesIO()
    ById(stream, protocol).dump(obj)
    return stream.getvalue()


def row(obj, storages, facts=None):
    """A file of the format before archives."""
    facts = facts or {"little_endian": True, "protocol_version": PROTOCOL_VERSION}
    head = b"".join(pickled(part) for part in (MAGIC_NUMBER, PROTOCOL_VERSION, facts, obj))
    tail = b"".join(struct.pack("<q", len(v)) + struct.pack(f"<{len(v)}f", *v) for v in storages)
    return io.BytesIO(head + pickled([str(n) for n in range(len(storages))]) + tail)


def test_the_parts_of_a_file():
    file = io.BytesIO()
    torch.save({"a": torch.ones(2)}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert pickle.load(file) == MAGIC_NUMBER
    assert pickle.load(file) == PROTOCOL_VERSION
    facts = pickle.load(file)
    assert facts["little_endian"] is True and facts["protocol_version"] == PROTOCOL_VERSION
    rest = file.read()
    assert rest.endswith(struct.pack("<qff", 2, 1.0, 1.0))
    assert b"ctorch\nFloatStorage\n" in rest and b"ctorch._utils\n_rebuild_tensor_v2\n" in rest


def test_the_oldest_way_to_rebuild_and_views_with_metadata():
    whole = Id("storage", FLOATS, "0", "cpu", 4, None)
    part = Id("storage", FLOATS, "0", "cpu", 4, ("view", 1, 2))
    rebuild = "torch._utils", "_rebuild_tensor"
    file = row(
        [Call(*rebuild, whole, 0, (4,), (1,)), Call(*rebuild, part, 0, (2,), (1,))], [range(4)]
    )
    whole, part = torch.load(file)
    assert whole.tolist() == [0, 1, 2, 3] and part.tolist() == [1, 2]
    whole[1] = 9
    assert part.tolist() == [9, 2]


def test_a_module_saved_with_its_source():
    linear = Named("torch.nn.modules.linear", "Linear")
    cls = Id("module", linear, "/old/linear.py", "class Linear(Module): ...")
    file = row([cls], [])
    assert torch.load(file, weights_only=False) == [torch.nn.Linear]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules.linear.Linear"):
        torch.load(file)


def test_numbers_of_the_other_byte_order():
    facts = {"little_endian": False, "protocol_version": PROTOCOL_VERSION}
    storage = Id("storage", FLOATS, "0", "cpu", 1, None)
    tensor = Call("torch._utils", "_rebuild_tensor", storage, 0, (1,), (1,))
    (swapped,) = struct.unpack("<f", struct.pack(">f", 2.5))
    assert torch.load(row(tensor, [[swapped]], facts)).tolist() == [2.5]


def test_another_protocol_version():
    content = pickled(MAGIC_NUMBER) + pickled(1000)
    with pytest.raises(RuntimeError, match="Invalid protocol version: 1000"):
        torch.load(io.BytesIO(content))


def tar_file(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    file.seek(0)
    return file


def members():
    storages = pickled(1) + pickled((11, "cpu", FLOATS)) + struct.pack("<q4f", 4, 0, 1, 2, 3)
    storages += pickled([(12, 11, 1, 2)])
    floats = Named("torch", "FloatTensor")
    tensors = pickled(2)
    tensors += pickled((21, 11, floats)) + struct.pack("<i4x2q2qq", 2, 2, 2, 2, 1, 0)
    tensors += pickled((22, 12, floats)) + struct.pack("<i4xqqq", 1, 1, 1, 1)
    obj = {"matrix": Id("21"), "part": Id("22"), "storage": Id("11")}
    return {"storages": storages, "tensors": tensors, "pickle": pickled(obj, protocol=0)}


def test_a_tar_file():
    found = torch.load(tar_file(members()), weights_only=False)
    assert found["matrix"].tolist() == [[0, 1], [2, 3]]
    assert found["part"].tolist() == [2]
    assert found["storage"].tolist() == [0, 1, 2, 3]
    found["matrix"][1, 0] = 9
    assert found["part"].tolist() == [9]


def test_a_tar_file_wants_trust():
    with pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with files.*tar"):
        torch.load(tar_file(members()))


def test_broken_tar_files():
    without = {name: data for name, data in members().items() if name != "tensors"}
    with pytest.raises(RuntimeError, match="not one of torch.save, or broken"):
        torch.load(tar_file(without), weights_only=False)
    large = members()
    large["storages"] = large["storages"].replace(struct.pack("<q", 4), struct.pack("<q", 2**50))
    with pytest.raises(RuntimeError, match="unexpected EOF"):
        torch.load(tar_file(large), weights_only=False)
