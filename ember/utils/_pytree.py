"""`torch.utils._pytree`: trees of containers. Which containers there are is a table that programs
may extend with `register_pytree_node`.

The leaves of a tree are what is in no known container; a TreeSpec is the tree without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ember.errors import check
from ember.utils import tree_nodes
from ember.utils.tree_nodes import (
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    GetAttrKey,
    MappingKey,
    SequenceKey,
    _dict_flatten,
    _dict_unflatten,
    _get_node_type,
    _register_pytree_node,
    register_dataclass,
    register_pytree_node,
)
from ember.utils.tree_specs import _LEAF_SPEC, LeafSpec, TreeSpec

__all__ = [
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "SequenceKey",
    "TreeSpec",
    "_dict_flatten",
    "_dict_unflatten",
    "_register_pytree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "tree_flatten",
    "tree_map",
    "tree_unflatten",
]
globals().update(  # the rest of the table of containers, under the names that programs know
    {name: value for name, value in vars(tree_nodes).items() if not name.startswith("__")}
)
PyTreeSpec = TreeSpec
Context = PyTree = KeyEntry = KeyPath = Any
_is_namedtuple_instance = tree_nodes.is_namedtuple_instance
_odict_flatten = tree_nodes._ordereddict_flatten
_odict_unflatten = tree_nodes._ordereddict_unflatten
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
IsLeaf = Callable[[Any], bool] | None


# flattening


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `tree` is one leaf: no known container, or declared one by `is_leaf`."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of `tree` from left to right, and its spec.

    >>> from ember.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"a": [1, 2], "b": None})
    >>> leaves
    [1, 2, None]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of `tree`, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree` from left to right."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of arguments, as given."""
    return tree_leaves([*args, *kwargs.values()])


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The spec of `tree`."""
    return tree_flatten(tree, is_leaf)[1]


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a spec with `leaves` in their places."""
    check(
        isinstance(treespec, TreeSpec),
        TypeError,
        f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
        f"got item of type {type(treespec)}.",
    )
    return treespec.unflatten(leaves)


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# mapping


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree` with each leaf replaced by `func(leaf, *what stands at its place in the others)`.

    >>> from ember.utils import _pytree
    >>> _pytree.tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*row) for row in zip(leaves, *columns, strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` on each leaf, as `tree_map` does, and return `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    for row in zip(leaves, *columns, strict=True):
        func(*row)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Any], Callable[[Any], Any]]:
    """A decorator: the function is applied to values of these types, or for which the predicate
    holds; others pass."""
    wanted = type_or_types_or_pred
    if isinstance(wanted, (type, tuple)) or not callable(wanted):

        def applies(value: Any) -> bool:
            return isinstance(value, wanted)
    else:
        applies = wanted

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: func(value) if applies(value) else value

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """`tree_map` of the leaves of some types only."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """`tree_map_` of the leaves of some types only."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether `pred` holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether `pred` holds for a leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


# paths


def _paths(path: tuple[Any, ...], tree: Any, is_leaf: IsLeaf) -> Iterator[tuple[Any, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    check(
        with_keys is not None,
        ValueError,
        f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a "
        "flatten_with_keys_fn argument to register_pytree_node.",
    )
    for key, child in with_keys(tree)[0]:
        yield from _paths((*path, key), child, is_leaf)


_generate_key_paths = _paths


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """(path, leaf) of each leaf, and the spec."""
    return list(_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Any, Any]]:
    """(path, leaf) of each leaf."""
    return list(_paths((), tree, is_leaf))


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` whose function gets the path of the leaf first."""
    paths, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(*zip(*paths, strict=True), *columns, strict=True) if paths else ()
    return spec.unflatten([func(*row) for row in rows])


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as Python writes it: "['a'][0].x"."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """The part of a tree that a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# specs as text


def treespec_leaf() -> TreeSpec:
    """The spec of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of trees."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The spec of a dict of trees."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), list(specs.values()))


def treespec_pprint(treespec: TreeSpec) -> str:
    """The spec as a tree of asterisks: "{'a': [*, *]}"."""
    star = type("_Asterisk", (), {"__repr__": lambda self: "*"})()
    return repr(treespec.unflatten([star] * treespec.num_leaves))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The spec as JSON. NotImplementedError for containers that were registered without a name."""
    check(
        isinstance(treespec, TreeSpec),
        TypeError,
        f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but "
        f"got item of type {type(treespec)}.",
    )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    check(
        protocol == 1,
        ValueError,
        f"Unknown protocol {protocol}. Available protocols: [1]",
    )
    return json.dumps((protocol, _to_json(treespec)))


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    check(
        node is not None and node.name is not None,
        NotImplementedError,
        f"No registered serialization name for {spec.type} found. Please register it with a "
        "`serialized_type_name`.",
    )
    context = node.to_dumpable(spec.context) if node.to_dumpable else json.dumps(spec.context)
    return {
        "type": node.name,
        "context": context,
        "children_spec": [_to_json(child) for child in spec.children_specs],
    }


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that `treespec_dumps` wrote."""
    protocol, schema = json.loads(serialized)
    check(protocol == 1, ValueError, f"Unknown protocol {protocol}. Available protocols: [1]")
    return _from_json(schema)


def _from_json(schema: dict[str, Any]) -> TreeSpec:
    if schema["type"] is None:
        return _LEAF_SPEC
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(schema["type"])
    check(
        kind is not None,
        NotImplementedError,
        f"No registered type found for the serialization name {schema['type']!r}.",
    )
    node = SUPPORTED_SERIALIZED_TYPES[kind]
    context = schema["context"]
    context = node.from_dumpable(context) if node.from_dumpable else json.loads(context)
    return TreeSpec(kind, context, [_from_json(child) for child in schema["children_spec"]])


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads
