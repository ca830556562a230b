"""From samples to batches: types, containers, and what cannot be stacked."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

import ember as torch
from ember.utils.data import default_collate, default_convert
from ember.utils.data._utils.collate import collate, default_collate_fn_map
from ember.utils.data._utils.pin_memory import pin_memory

Pair = namedtuple("Pair", "x y")


class Items(list):
    pass


class Fixed(dict):
    """A dict that can only be made without arguments."""

    def __init__(self):
        super().__init__(a=1)


@pytest.mark.parametrize(
    ("batch", "dtype", "values"),
    [
        ([1, 2], "int64", [1, 2]),
        ([1.0, 2], "float64", [1, 2]),
        ([True, False], "bool", [True, False]),
        ([np.float32(1), np.float32(2)], "float32", [1, 2]),
        ([np.int16(3)], "int16", [3]),
        ([np.bool_(True)], "bool", [True]),
        ([np.ones(2), np.zeros(2)], "float64", [[1, 1], [0, 0]]),
        ([np.array(1.0), np.array(2.0)], "float64", [1, 2]),
        ([torch.ones(2), torch.zeros(2)], "float32", [[1, 1], [0, 0]]),
        ((torch.ones(1), torch.zeros(1)), "float32", [[1], [0]]),
    ],
)
def test_leaves_are_stacked(batch, dtype, values):
    found = default_collate(batch)
    assert str(found.dtype) == f"torch.{dtype}" and found.tolist() == values


def test_strings_stay():
    assert default_collate(["a", "b"]) == ["a", "b"] and default_collate([b"a"]) == [b"a"]


def test_containers_are_merged_item_by_item():
    found = default_collate([{"a": 1, "b": [1, 2]}, {"a": 3, "b": [5, 6]}])
    assert found["a"].tolist() == [1, 3] and [t.tolist() for t in found["b"]] == [[1, 5], [2, 6]]
    found = default_collate([(1, "a"), (2, "b")])
    assert type(found) is list and found[0].tolist() == [1, 2] and found[1] == ("a", "b")
    found = default_collate([Pair(1, 2), Pair(3, 4)])
    assert type(found) is Pair and found.x.tolist() == [1, 3] and found.y.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        ([OrderedDict(a=1), OrderedDict(a=2)], OrderedDict),
        ([defaultdict(int, a=1), defaultdict(int, a=2)], defaultdict),
        ([Fixed(), Fixed()], Fixed),
        ([Items([1]), Items([2])], Items),
        ([deque([1]), deque([2])], deque),
        ([range(2), range(2)], list),
        ([(1,), (2,)], list),
    ],
)
def test_types_of_containers(batch, kind):
    assert type(default_collate(batch)) is kind


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ([None, None], "<class 'NoneType'>"),
        ([set(), set()], "<class 'set'>"),
        ([np.array("a")], "<U1"),
        ([np.array([1, "a"], dtype=object)], "object"),
    ],
)
def test_what_cannot_be_stacked(batch, found):
    message = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists"
    with pytest.raises(TypeError) as caught:
        default_collate(batch)
    assert str(caught.value) == f"{message}; found {found}"


def test_shapes_and_lengths_that_differ():
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [2, 3]])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([torch.ones(2), torch.ones(3)])
    with pytest.raises(KeyError):
        default_collate([{"a": 1}, {"b": 1}])


def test_functions_by_type():
    class Image:
        pass

    table = {Image: lambda batch, *, collate_fn_map=None: len(batch), **default_collate_fn_map}
    found = collate([(Image(), 1), (Image(), 2)], collate_fn_map=table)
    assert found[0] == 2 and found[1].tolist() == [1, 2]


def test_conversion_without_batching():
    array = np.zeros(2, np.float32)
    tensor = default_convert(array)
    array[0] = 5
    assert tensor.tolist() == [5, 0]
    found = default_convert({"a": np.ones(1), "b": (1, [np.float64(2)]), "c": "x"})
    assert found["a"].tolist() == [1] and found["b"][1][0].item() == 2 and found["c"] == "x"
    assert type(found["b"]) is list
    assert default_convert(Pair(np.ones(1), 2)).x.tolist() == [1]
    text = np.array(["a", "b"])
    assert default_convert(text) is text and default_convert(None) is None


def test_pinning_reaches_every_tensor():
    class Own:
        def pin_memory(self):
            return "pinned"

    batch = {"a": torch.ones(1), "b": [torch.ones(1), "x", b"y"], "c": Pair(torch.ones(1), 3)}
    found = pin_memory({**batch, "own": Own(), "tuple": (torch.ones(1),)})
    assert found["a"].is_pinned() and found["b"][0].is_pinned() and found["c"].x.is_pinned()
    assert found["b"][1:] == ["x", b"y"] and found["c"].y == 3 and found["own"] == "pinned"
    assert type(found["tuple"]) is list and found["tuple"][0].is_pinned()
