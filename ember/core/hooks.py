"""Hooks that users register, and the handle that takes one away again."""

from __future__ import annotations

import itertools
import weakref
from typing import Any


class Hooks(dict[int, Any]):
    """Hooks by the id of their handle, in the order of registration."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Takes a hook away again: by `remove()`, or at the end of a `with` block.

    `hooks_dict` holds the hook under `id`; so do the marks in `extra_dict`, a dict or a list of
    them. Only weak references are kept, so that a handle keeps nothing alive.
    """

    _ids = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None):
        self.id = next(RemovableHandle._ids)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        self.extra_dict_ref = tuple(weakref.ref(marks) for marks in extra)

    def remove(self) -> None:
        """Take the hook away; more than once is fine."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, [reference() for reference in self.extra_dict_ref]

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, extra = state
        alive = [held if held is not None else Hooks() for held in (hooks, *extra)]
        self.hooks_dict_ref, *rest = [weakref.ref(held) for held in alive]
        self.extra_dict_ref = tuple(rest)


def hook_into(hooks: Hooks, hook: Any) -> RemovableHandle:
    """Add a hook; the handle removes it."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
