"""Trees of containers: leaves, specs, paths, and classes that programs add."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import ember as torch
from ember.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


pytree.register_pytree_node(
    Pair, lambda p: ([p.a, p.b], "context"), lambda children, context: Pair(*children)
)


@pytest.mark.parametrize(
    ("tree", "leaves", "shown"),
    [
        (3, [3], "*"),
        ({"b": 1, "a": None}, [1, None], "TreeSpec(dict, ['b', 'a'], [*,\n  *])"),
        ([1, (2,)], [1, 2], "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*])])"),
        (OrderedDict(a=1), [1], "TreeSpec(OrderedDict, ['a'], [*])"),
        (deque([1], maxlen=3), [1], "TreeSpec(deque, 3, [*])"),
        (torch.Size([2]), [2], "TreeSpec(Size, None, [*])"),
        (
            defaultdict(list, a=1),
            [1],
            "TreeSpec(defaultdict, [<class 'list'>, ['a']], [*])",
        ),
    ],
)
def test_flatten_and_back(tree, leaves, shown):
    found, spec = pytree.tree_flatten(tree)
    assert found == leaves and repr(spec) == shown
    again = pytree.tree_unflatten(found, spec)
    assert again == tree and type(again) is type(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert spec.num_leaves == len(leaves)


def test_named_tuples_and_results_of_ops():
    leaves, spec = pytree.tree_flatten(Point(1, [2]))
    assert leaves == [1, 2] and spec.context is Point
    assert pytree.tree_map(lambda x: x * 2, Point(1, [2])) == Point(2, [4])
    doubled = pytree.tree_map(lambda t: t * 2, torch.max(torch.tensor([1.0, 3.0]), 0))
    assert type(doubled) is torch.return_types.max
    assert (doubled.values.item(), doubled.indices.item()) == (6.0, 2)


def test_classes_of_programs():
    tree = {"p": Pair(1, [2])}
    mapped = pytree.tree_map(lambda x: x + 1, tree)
    assert (mapped["p"].a, mapped["p"].b) == (2, [3])
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        pytree.register_pytree_node(Pair, None, None)
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Pair(1, 2))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([3], "Node arity mismatch; expected 2, but got 1"),
        ((3, 4), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
    ],
)
def test_trees_that_differ(other, message):
    with pytest.raises(ValueError, match=message):
        pytree.tree_map(lambda a, b: a + b, [1, 2], other)


def test_dicts_that_differ_name_the_keys():
    with pytest.raises(ValueError, match=r"missing key\(s\): {'a'}; extra key\(s\): {'b'}"):
        pytree.tree_map(lambda a, b: a + b, {"a": 1}, {"b": 1})


def test_wrong_number_of_leaves():
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_some_leaves_only():
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, 2.5, "a"]) == [2, 2.5, "a"]
    assert pytree.tree_map_only((int, float), lambda x: x + 1, [1, 2.5]) == [2, 3.5]
    assert pytree.tree_all(lambda x: x > 0, [1, 2]) and pytree.tree_any(lambda x: x > 1, [1, 2])
    assert not pytree.tree_any_only(int, lambda x: x > 0, [0, "a"])
    assert pytree.tree_leaves([1, [2, 3]], is_leaf=lambda x: x == [2, 3]) == [1, [2, 3]]


def test_paths():
    tree = {"a": [1, Point(2, 3)]}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert paths == ["['a'][0]", "['a'][1].x", "['a'][1].y"]
    path = (pytree.MappingKey("a"), pytree.SequenceKey(1), pytree.GetAttrKey("y"))
    assert pytree.key_get(tree, path) == 3
    named = pytree.tree_map_with_path(lambda path, x: (pytree.keystr(path), x), [5])
    assert named == [("[0]", 5)]


def test_specs_compare_and_print():
    spec = pytree.tree_structure({"b": [1, (2, 3)], "a": 0})
    assert pytree.treespec_pprint(spec) == "{'b': [*, (*, *)], 'a': *}"
    assert spec == pytree.tree_structure({"b": [0, (0, 0)], "a": 1})
    assert hash(spec) == hash(pytree.tree_structure({"b": [0, (0, 0)], "a": 1}))
    assert spec != pytree.tree_structure([1])
    assert spec.flatten_up_to({"b": [[], (2, 3)], "a": {}}) == [[], 2, 3, {}]
    assert pytree._broadcast_to_and_flatten(1, spec) == [1, 1, 1, 1]
    assert pytree._broadcast_to_and_flatten([1, 2], spec) is None
    assert isinstance(spec.child(0).child(0), pytree.LeafSpec)


def test_containers_are_taken_apart_with_keys():
    expected = [(pytree.MappingKey("a"), 1), (pytree.MappingKey("b"), 2)]
    assert pytree._dict_flatten_with_keys({"a": 1, "b": 2}) == (expected, ["a", "b"])
    assert pytree._list_flatten_with_keys([5]) == ([(pytree.SequenceKey(0), 5)], None)
    fields = [(pytree.GetAttrKey("x"), 1), (pytree.GetAttrKey("y"), 2)]
    assert pytree._namedtuple_flatten_with_keys(Point(1, 2)) == (fields, Point)
