"""The table of containers that trees are made of: how each is taken apart and put together."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ember.errors import check
from ember.layout import Size


class NodeDef(NamedTuple):
    """How one type of container is taken apart and put together."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None


class SerializedNode(NamedTuple):
    """The name of a type of container in JSON, and its context to and from there."""

    name: str | None
    to_dumpable: Callable[[Any], Any] | None
    from_dumpable: Callable[[Any], Any] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, SerializedNode] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})


# paths


class MappingKey(NamedTuple):
    """A step of a path: the value of a key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The part that it leads to."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """A step of a path: an element."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The part that it leads to."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """A step of a path: an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The part that it leads to."""
        return getattr(obj, self.name)


# registering


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    check(cls not in SUPPORTED_NODES, ValueError, f"{cls!r} is already registered as pytree node.")
    check(
        (to_dumpable_context is None) == (from_dumpable_context is None),
        ValueError,
        f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.",
    )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializedNode(
        serialized_type_name, to_dumpable_context, from_dumpable_context
    )
    if serialized_type_name is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Let trees look into a class: `flatten_fn(x) -> (children, context)`, `unflatten_fn(children,
    context) -> x`. ValueError for a class that trees know.

    >>> from ember.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    >>> _pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _register_pytree_node(
    cls: type, flatten_fn: Any, unflatten_fn: Any, *unused: Any, **options: Any
) -> None:
    """The older name of `register_pytree_node`; a class registered again gets the new functions."""
    SUPPORTED_NODES.pop(cls, None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type) -> None:
    """Forget a class that was registered."""
    node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(node.name or "", None)
    del SUPPORTED_NODES[cls]


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a namedtuple a name in JSON."""
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializedNode(serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let trees look into a dataclass: its fields are the children, those that are None aside."""
    import dataclasses  # slow to import; whoever has a dataclass has it already

    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init]
    names = [name for name in names if name not in (drop_field_names or ())]

    def flatten(value: Any) -> tuple[Any, Any]:
        present = [name for name in names if getattr(value, name) is not None]
        absent = [name for name in names if getattr(value, name) is None]
        return [getattr(value, name) for name in present], [present, absent]

    def flatten_with_keys(value: Any) -> tuple[Any, Any]:
        children, context = flatten(value)
        keys = [GetAttrKey(name) for name in context[0]]
        return list(zip(keys, children, strict=True)), context

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(absent))

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


# kinds


def is_namedtuple_class(cls: Any) -> bool:
    """Whether `cls` is a class made by namedtuple."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(field, str) for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether `obj` is a namedtuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether `obj` is a namedtuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether `cls` is a class of C structures, as os.stat_result is."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and isinstance(getattr(cls, "n_sequence_fields", None), int)
        and isinstance(getattr(cls, "n_fields", None), int)
    )


def is_structseq_instance(obj: Any) -> bool:
    """Whether `obj` is a C structure."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether `obj` is a C structure, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    if kind in SUPPORTED_NODES or not is_namedtuple_class(kind):
        return kind
    if kind.__module__ == "torch.return_types":  # those are made when an op first returns one
        _register_result(kind)
        return kind
    return namedtuple


def _register_result(kind: Any) -> None:
    _private_register_pytree_node(
        kind,
        _tuple_flatten,
        lambda values, context: kind(*values),
        serialized_type_name=f"torch.return_types.{kind.__name__}",
        flatten_with_keys_fn=_by_position(_tuple_flatten),
    )


# Python's containers


def _tuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return tuple(values)


def _list_flatten(d: Any) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> Any:
    return list(values)


def _dict_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> Any:
    return dict(zip(context, values, strict=True))


_ordereddict_flatten = _dict_flatten


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> Any:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> Any:
    return defaultdict(context[0], zip(context[1], values, strict=True))


def _deque_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> Any:
    return deque(values, maxlen=context)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


def _by_position(flatten: Any) -> Any:
    def flatten_with_keys(d: Any) -> tuple[Any, Any]:
        values, context = flatten(d)
        return [(SequenceKey(i), v) for i, v in enumerate(values)], context

    return flatten_with_keys


def _by_key(flatten: Any) -> Any:
    def flatten_with_keys(d: Any) -> tuple[Any, Any]:
        values, context = flatten(d)
        return [(MappingKey(k), v) for k, v in zip(d, values, strict=True)], context

    return flatten_with_keys


def _by_field(d: Any) -> tuple[Any, Any]:
    values, context = _namedtuple_flatten(d)
    return [(GetAttrKey(f), v) for f, v in zip(d._fields, values, strict=True)], context


_tuple_flatten_with_keys = _by_position(_tuple_flatten)
_list_flatten_with_keys = _by_position(_list_flatten)
_deque_flatten_with_keys = _by_position(_deque_flatten)
_dict_flatten_with_keys = _ordereddict_flatten_with_keys = _by_key(_dict_flatten)
_defaultdict_flatten_with_keys = _by_key(_defaultdict_flatten)
_namedtuple_flatten_with_keys = _by_field


def _class_named(text: Any) -> Any:
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[json.loads(text)]


def _name_of_class(kind: Any) -> str:
    node = SUPPORTED_SERIALIZED_TYPES.get(kind)
    check(
        node is not None and node.name is not None,
        NotImplementedError,
        f"Can't serialize TreeSpec of namedtuple class {kind} because we didn't register a "
        "serializated_type_name. Please register using `_register_namedtuple`.",
    )
    return json.dumps(node.name)  # type: ignore[union-attr]


def _dump_default(context: Any) -> str:
    factory, keys = context
    return json.dumps(
        {
            "default_factory_module": factory.__module__,
            "default_factory_name": factory.__qualname__,
            "dict_context": keys,
        }
    )


def _load_default(text: str) -> Any:
    from importlib import import_module

    found = json.loads(text)
    factory = getattr(import_module(found["default_factory_module"]), found["default_factory_name"])
    return [factory, found["dict_context"]]


for _kind, _take, _put, _keys, _name, _dump, _load in (
    (tuple, _tuple_flatten, _tuple_unflatten, _by_position, "builtins.tuple", None, None),
    (list, _list_flatten, _list_unflatten, _by_position, "builtins.list", None, None),
    (dict, _dict_flatten, _dict_unflatten, _by_key, "builtins.dict", None, None),
    (
        namedtuple,
        _namedtuple_flatten,
        _namedtuple_unflatten,
        lambda flatten: _by_field,
        "collections.namedtuple",
        _name_of_class,
        _class_named,
    ),
    (
        OrderedDict,
        _ordereddict_flatten,
        _ordereddict_unflatten,
        _by_key,
        "collections.OrderedDict",
        None,
        None,
    ),
    (
        defaultdict,
        _defaultdict_flatten,
        _defaultdict_unflatten,
        _by_key,
        "collections.defaultdict",
        _dump_default,
        _load_default,
    ),
    (deque, _deque_flatten, _deque_unflatten, _by_position, "collections.deque", None, None),
    (
        Size,
        _tuple_flatten,
        lambda values, context: Size(values),
        _by_position,
        "torch.Size",
        None,
        None,
    ),
):
    _private_register_pytree_node(
        _kind,
        _take,
        _put,
        serialized_type_name=_name,
        to_dumpable_context=_dump,
        from_dumpable_context=_load,
        flatten_with_keys_fn=_keys(_take),
    )
