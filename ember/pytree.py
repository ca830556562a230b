"""Trees of containers: the leaves of nested lists, tuples and dicts, and the way back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Spec = Any  # None for a leaf, else (type, keys or None, specs of the children)


def tree_flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of `tree` from left to right, and a spec that `tree_unflatten` rebuilds it from.

    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Spec:
    kind = type(tree)
    if kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return kind, None, [_flatten(child, leaves) for child in tree]
    if kind in (dict, OrderedDict):
        return kind, list(tree), [_flatten(child, leaves) for child in tree.values()]
    leaves.append(tree)
    return None


def tree_unflatten(leaves: list[Any], spec: Spec) -> Any:
    """The tree of `spec` with `leaves` in their places."""
    remaining = iter(leaves)
    return _unflatten(remaining, spec)


def _unflatten(leaves: Any, spec: Spec) -> Any:
    if spec is None:
        return next(leaves)
    kind, keys, children = spec
    values = [_unflatten(leaves, child) for child in children]
    if keys is not None:
        return kind(zip(keys, values, strict=True))
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`tree` with each leaf replaced by `function(leaf, *leaves of the others at its place)`."""
    leaves, spec = tree_flatten(tree)
    columns = [tree_flatten(other)[0] for other in others]
    return tree_unflatten([function(*row) for row in zip(leaves, *columns, strict=True)], spec)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of `tree` from left to right."""
    return tree_flatten(tree)[0]
