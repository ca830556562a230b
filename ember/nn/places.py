"""Where in a program something happens: the user's line, the call made there, and the module that
is running.

All of it is read off Python's stack when it is asked for, so that programs pay nothing before.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any, NamedTuple

from ember.nn.modules.module_hooks import ModuleHooks
from ember.nn.modules.module_moving import ModuleMoving
from ember.source_lines import PACKAGE

# Frames whose `self` is the module that is called, or whose tensors are being moved.
_MOVING = ModuleMoving._apply.__code__
_MODULE_CODES = {ModuleHooks._call_impl.__code__, _MOVING}
_ANONYMOUS = ("call", "convert", "binary", "slow", "hooked_step", "stepped")  # what wraps functions


class Place(NamedTuple):
    """A point in a program: the user's line, the function of Ember's that it calls, the module."""

    file: str
    line: int
    call: str
    module: str


def here(frame: FrameType | None = None) -> Place:
    """The place that the calling code (or `frame`) serves; ("?", 0, "", "") outside a program."""
    found: FrameType | None = frame or sys._getframe(1)
    call, user, moving = "", None, False
    modules: list[Any] = []
    while found is not None:
        code = found.f_code
        if user is None:
            name = code.co_filename
            if not name.startswith((PACKAGE, "<ember")):
                user = found
            elif code.co_name[0] != "<" and code.co_name not in _ANONYMOUS:
                call = code.co_name
        if code in _MODULE_CODES:
            moving = moving or (not modules and code is _MOVING)
            modules.append(found.f_locals["self"])
            outside = found.f_back
        found = found.f_back
    call = call if call.startswith("__") else call.removeprefix("_")
    call = f"Module.{call}" if moving else call
    path = ""
    if modules:
        path = path_of(modules[0], modules[-1], _name_in(outside, modules[-1]))
    if user is None:
        return Place("?", 0, call, path)
    return Place(user.f_code.co_filename, user.f_lineno, call, path)


def running_modules(frame: FrameType) -> list[tuple[Any, str]]:
    """The modules that are running at a frame, innermost first, with the names that they have in
    the program."""
    found: list[Any] = []
    position: FrameType | None = frame
    outside = None
    while position is not None:
        if position.f_code in _MODULE_CODES:
            module = position.f_locals["self"]
            if not found or found[-1] is not module:
                found.append(module)
            outside = position.f_back
        position = position.f_back
    if not found:
        return []
    root, name = found[-1], _name_in(outside, found[-1])
    return [(module, path_of(module, root, name)) for module in found]


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The frames outside Ember from a frame outwards."""
    found = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith((PACKAGE, "<ember")):
            found.append(frame)
        frame = frame.f_back
    return found


_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_paths: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _name_in(frame: FrameType | None, module: Any) -> str:
    """The variable that holds a module in the program's frames; else the name of its class."""
    known = _names.get(module)
    if known is not None:
        return known
    found = type(module).__name__
    for user in user_frames(frame):
        names = [n for n, value in user.f_locals.items() if value is module and n != "self"]
        names += [n for n, value in user.f_globals.items() if value is module]
        if names:
            found = names[0]
            break
    _names[module] = found
    return found


def call_it(module: Any, name: str) -> None:
    """Let a module that no variable holds be known by a name."""
    _names[module] = name


def path_of(module: Any, root: Any, name: str) -> str:
    """The module as the program would write it: `model.layers[3].attn` for root `model`."""
    if module is root:
        return name
    known = _paths.get(root)
    if known is None or module not in known:
        known = weakref.WeakKeyDictionary({m: written(path) for path, m in root.named_modules()})
        _paths[root] = known
    path = known.get(module)
    return f"{name}{path}" if path is not None else f"{type(module).__name__} (not part of {name})"


def written(path: str) -> str:
    """`layers.3.attn` as `.layers[3].attn`, which Python understands."""
    parts = path.split(".") if path else []
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)
