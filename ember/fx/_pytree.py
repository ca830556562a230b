"""Nested arguments as the flat ones of a graph, and back, for generated code."""

from __future__ import annotations

from typing import Any

from ember.errors import check
from ember.pytree import tree_flatten

SUPPORTED_NODES: dict[type, Any] = {}


def register_pytree_flatten_spec(cls: type, flatten_fn_spec: Any, *others: Any) -> None:
    """Note how a class is taken apart; kept for those who look."""
    SUPPORTED_NODES[cls] = flatten_fn_spec


def tree_flatten_spec(tree: Any, spec: Any) -> list[Any]:
    """The leaves of a tree that must be of the shape of `spec`; ValueError if it is not."""
    leaves: list[Any] = []
    _follow(tree, spec, leaves)
    return leaves


def _follow(tree: Any, spec: Any, leaves: list[Any]) -> None:
    if spec is None:
        leaves.append(tree)
        return
    _, keys, children = spec
    if keys is not None:
        check(set(tree) == set(keys), ValueError, f"keys {list(keys)} expected, not {list(tree)}")
        parts = [tree[key] for key in keys]
    else:
        parts = list(tree)
        found = len(parts)
        check(found == len(children), ValueError, f"{len(children)} elements expected, not {found}")
    for part, child in zip(parts, children, strict=True):
        _follow(part, child, leaves)


def is_flat(spec: Any) -> bool:
    """Whether no child of the spec has children of its own."""
    return spec is None or all(child is None for child in spec[2])


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree)[0]
