"""What a file may hold when only weights are wanted, and that nothing else in it is run."""

import collections
import fractions
import io
import os
import pickle
import zipfile

import pytest

import ember as torch
from ember.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from ember.serialization.weights_unpickler import load_weights

ran = []


class Point:
    """A class of the user's."""

    def __init__(self, x):
        self.x = x


class Slots:
    __slots__ = ("x",)


class Restored:
    def __setstate__(self, state):
        self.state = state

    def __getstate__(self):
        return ["state"]


class Trap:
    """Its pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.reduction = function, arguments

    def __reduce__(self):
        return self.reduction


def remember(what):
    ran.append(what)
    return what


@pytest.fixture(autouse=True)
def _nothing_allowed():
    clear_safe_globals()
    ran.clear()
    yield
    clear_safe_globals()


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def load(obj, **options):
    return torch.load(io.BytesIO(saved(obj)), **options)


@pytest.mark.parametrize(
    "obj",
    [
        None, True, 0, 255, 65536, -1, 2**31, -(2**80), 1.5, 3j, "é", "x" * 300, b"ab", b"x" * 300,
        bytearray(b"a"), (), (1,), (1, 2, 3, 4), [], [1, [2]], {}, {"a": {1: 2}}, set(), {1, 2},
        collections.OrderedDict(a=1), collections.Counter("aab"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data(obj, protocol):
    content = saved(obj, pickle_protocol=protocol)
    found = torch.load(io.BytesIO(content))
    assert found == obj and type(found) is type(obj)


@pytest.mark.parametrize("protocol", [2, 4])
def test_shared_and_recursive_objects(protocol):
    shared = [1]
    ring = [shared, shared]
    ring.append(ring)
    found = torch.load(io.BytesIO(saved(ring, pickle_protocol=protocol)))
    assert found[0] is found[1] and found[2] is found


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        (Point(1), f"{__name__}.Point"),
        (fractions.Fraction(1, 2), "fractions.Fraction"),
        (slice(1, 2), "slice"),
        (frozenset({1}), "frozenset"),
        (collections.defaultdict(int), "collections.defaultdict"),
        (print, "print"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (torch.Generator(), "torch._C.Generator"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_names_are_refused(obj, name):
    with pytest.raises(pickle.UnpicklingError) as caught:
        load(obj)
    message = str(caught.value)
    assert "Weights only load failed" in message and "`weights_only`" in message
    wanted = f"Unsupported global: GLOBAL {name} was not an allowed global by default. Please use"
    assert wanted in message
    assert f"torch.serialization.add_safe_globals([{name}])" in message


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_in_the_file_is_run(legacy, protocol):
    trap = [torch.ones(1), Trap(remember, "boo")]
    options = {"_use_new_zipfile_serialization": not legacy, "pickle_protocol": protocol}
    content = saved(trap, **options)
    with pytest.raises(pickle.UnpicklingError, match="remember"):
        torch.load(io.BytesIO(content))
    assert ran == []
    torch.load(io.BytesIO(content), weights_only=False)
    assert ran == ["boo"]


@pytest.mark.parametrize("function", [os.system, os.getcwd])
def test_modules_that_are_blocked(function):
    with pytest.raises(pickle.UnpicklingError, match="whose module posix is blocked"):
        load(Trap(function, "true"))
    with safe_globals([function]), pytest.raises(pickle.UnpicklingError, match="blocked"):
        load(Trap(function, "true"))


def test_values_and_labels_cannot_be_called():
    for name in ("Tensor", "float32", "FloatStorage"):
        pickled = b"\x80\x02ctorch\n%s\nK\x05\x85R." % name.encode()
        with pytest.raises(pickle.UnpicklingError, match="reduce for unrecognized function"):
            load_weights(io.BytesIO(pickled))


def test_calls_of_what_is_allowed_cannot_do_harm():
    for pickled in (
        b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.",  # a size
        b"\x80\x02c_codecs\nencode\nX\x02\x00\x00\x00aaX\x03\x00\x00\x00zip\x86R.",
        b"\x80\x02ctorch\nSize\nX\x02\x00\x00\x00aa\x85R.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nK\x01\x85R.",
        b"\x80\x02ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR.",
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\nset\nctorch\nTensor\n)NtR.",
    ):
        with pytest.raises(pickle.UnpicklingError, match="makes no sense"):
            load_weights(io.BytesIO(pickled))


def test_inner_attributes_cannot_be_set():
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.mine = 1
    content = saved([parameter])
    assert torch.load(io.BytesIO(content))[0].mine == 1
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            old, new = b"\x04\x00\x00\x00mine", b"\x06\x00\x00\x00_array"
            archive.writestr(name, data.replace(old, new))
    with pytest.raises(pickle.UnpicklingError, match="inner attributes"):
        torch.load(io.BytesIO(target.getvalue()))


def test_allowing_a_class():
    point = Point([torch.ones(2)])
    with safe_globals([Point]):
        assert load(point).x[0].tolist() == [1, 1]
        assert get_safe_globals() == [Point]
    assert get_safe_globals() == []
    add_safe_globals([Point])
    assert load(point).x[0].tolist() == [1, 1]
    clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        load(point)


def test_allowing_under_another_name():
    content = saved(Point(1)).replace(b"Point", b"Moved")
    source, target = zipfile.ZipFile(io.BytesIO(saved(Point(1)))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name).replace(b"Point", b"Moved"))
    content = target.getvalue()
    pair = (Point, f"{__name__}.Moved")
    with safe_globals([pair]):
        assert get_safe_globals() == [pair]
        assert type(torch.load(io.BytesIO(content))) is Point
    with pytest.raises(ValueError, match="Expected tuple"):
        add_safe_globals([(Point, 1)])


def test_allowed_classes_with_slots_states_and_reductions():
    slots = Slots()
    slots.x = 3
    with safe_globals([Slots, Restored, fractions.Fraction]):
        assert load(slots).x == 3
        assert load(Restored()).state == ["state"]
        assert load(fractions.Fraction(1, 2)) == fractions.Fraction(1, 2)


def test_the_names_that_a_file_needs():
    content = saved([Point(1), fractions.Fraction(1, 2), torch.ones(1)])
    names = [f"{__name__}.Point", "fractions.Fraction"]
    assert get_unsafe_globals_in_checkpoint(io.BytesIO(content)) == names
    with safe_globals([Point]):
        assert get_unsafe_globals_in_checkpoint(io.BytesIO(content)) == names[1:]
    content = saved([Point(1)], pickle_protocol=4)
    assert get_unsafe_globals_in_checkpoint(io.BytesIO(content)) == names[:1]
