"""The lists and dicts that nodes keep their arguments in: to change one, give the node another."""

from __future__ import annotations

from typing import Any

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(kind: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"'{kind}' object does not support mutation. If you are attempting to modify the "
            "kwargs or args of a torch.fx.Node object, instead create a new copy of it and assign "
            "the copy to the node: new_args = ... ; node.args = new_args"
        )

    refuse.__doc__ = "NotImplementedError: give the node a new copy instead."
    return refuse


class immutable_list(list[Any]):
    """A list that refuses to be changed.

    >>> from ember.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2])
    [1, 2]
    """

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(dict[Any, Any]):
    """A dict that refuses to be changed."""

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


for _name in (
    "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"
).split():
    setattr(immutable_list, _name, _refuse("immutable_list"))
for _name in "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update".split():
    setattr(immutable_dict, _name, _refuse("immutable_dict"))
