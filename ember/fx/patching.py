"""What is changed while a tracer runs: module calls, and functions that are recorded whole."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ember.fx.node import map_aggregate
from ember.fx.proxy import Proxy

_ABSENT = object()


def find_proxy(*values: Any) -> Proxy | None:
    """The first proxy among nested values."""
    found: list[Proxy] = []

    def note(value: Any) -> Any:
        if isinstance(value, Proxy):
            found.append(value)
        return value

    map_aggregate(values, note)
    return found[0] if found else None


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one that becomes a node when it is given proxies."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped._is_recorded = True  # type: ignore[attr-defined]
    return wrapped


def recorded_method(cls: type, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method as one that becomes a node when it is given proxies."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class Patcher:
    """Sets attributes and globals, and sets them back when its block ends."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._searched: set[int] = set()

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def patch_method(
        self, cls: Any, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Set a method of a class; PyTorch's name for `set`."""
        self.set(cls, name, new_fn)

    def wrap_item(self, frame: dict[str, Any], name: str, function: Any) -> None:
        """Put the recorded form of a function into a dict of globals."""
        before = frame.get(name, _ABSENT)
        if getattr(before, "_is_recorded", False):
            return
        frame[name] = recorded(function)
        if before is _ABSENT:
            self._undo.append(lambda: frame.pop(name, None))
        else:
            self._undo.append(lambda: frame.__setitem__(name, before))

    def wrap_method(self, cls: type, name: str) -> None:
        """Record calls of a method."""
        self.set(cls, name, recorded_method(cls, name, getattr(cls, name)))

    def wrap_names(self, frame: dict[str, Any], function_ids: set[int]) -> None:
        """Wrap those of some functions that a dict of globals holds; once for each dict."""
        if id(frame) in self._searched:
            return
        self._searched.add(id(frame))
        for name, value in list(frame.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                self.wrap_item(frame, name, value)

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._searched.clear()
