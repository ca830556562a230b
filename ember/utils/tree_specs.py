"""A tree without its leaves: what `tree_flatten` gives, and what puts leaves in their places."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from ember.errors import check
from ember.utils.tree_nodes import STANDARD_DICT_TYPES, SUPPORTED_NODES, _get_node_type


class TreeSpec:
    """A tree without its leaves: the type of container, what it keeps of it (keys), and the
    children's specs. A leaf's spec has type None.

    >>> from ember.utils import _pytree
    >>> _pytree.tree_structure({"a": [1, 2]})
    TreeSpec(dict, ['a'], [TreeSpec(list, None, [*,
        *])])
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]):
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        leaf = type is None
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves = 1 if leaf else sum(child.num_leaves for child in self._children)

    @property
    def context(self) -> Any:
        """What the container keeps beside its children: keys, a class, a length."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The specs of the children."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """The specs of the children, in a list of your own."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is the spec of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with `leaves` in their places. ValueError if they are too few or too many."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        check(
            len(leaves) == self.num_leaves,
            ValueError,
            lambda: (
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            ),
        )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` that stand where this spec has leaves. ValueError if the trees
        differ above them."""
        found: list[Any] = []
        self._descend(tree, found)
        return found

    def _descend(self, tree: Any, found: list[Any]) -> None:
        if self.type is None:
            found.append(tree)
            return
        kind = _get_node_type(tree)
        both_dicts = kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES
        check(
            kind is self.type or both_dicts,
            ValueError,
            f"Node type mismatch; expected {self.type!r}, but got {kind!r}.",
        )
        if both_dicts:
            keys = self._context[1] if self.type is defaultdict else self._context
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            text = f"; missing key(s): {missing}" if missing else ""
            text += f"; extra key(s): {extra}" if extra else ""
            check(not text, ValueError, f"Node keys mismatch{text}.")
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            check(
                len(children) == self.num_children,
                ValueError,
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.",
            )
            check(
                kind is deque or context == self._context,
                ValueError,
                f"Node context mismatch for custom node type {kind!r}.",
            )
        for child, spec in zip(children, self._children, strict=True):
            spec._descend(child, found)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self._context), tuple(map(hash, self._children))))

    def __repr__(self) -> str:
        return self._shown(0)

    def _shown(self, indent: int) -> str:
        if self.type is None:
            return "*"
        start = f"TreeSpec({self.type.__name__}, {self._context}, ["
        parts = [child._shown(indent + 2) for child in self._children]
        return start + (",\n" + " " * (indent + 2)).join(parts) + "])"


class _LeafSpecMeta(type(TreeSpec)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(TreeSpec, metaclass=_LeafSpecMeta):
    """The spec of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF_SPEC = LeafSpec()
