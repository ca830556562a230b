"""What a device mismatch is about: which tensors of the program they are, where they were placed,
and the line that would fix it.

Everything is found when the error is raised, from the stack, the modules that run and the program's
text; only moves between devices are written down before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from ember.core.array import moved_at
from ember.core.tensor import Tensor
from ember.devices.program_text import assignment_of, attribute_set_in
from ember.nn.places import running_modules, user_frames, written
from ember.source_lines import short


class Found(NamedTuple):
    """An operand as the program knows it."""

    operand: str
    tensor: Tensor
    kind: str  # parameter, buffer, attribute, variable, value
    name: str  # as the program would write it
    owner: Any  # the module that has it
    attribute: str
    root: str  # the outermost module's name
    place: tuple[str, int] | None  # where it was set
    text: str  # what that line says


def explain(operands: Sequence[tuple[str, Any]], target: Any) -> str:
    """Lines to add to the error: one for each operand, and the fix; "" where nothing is known."""
    try:
        return _explained(operands, target, sys._getframe(1))
    except Exception:  # whatever a program has done to its objects, its own error must be seen
        return ""


def _explained(operands: Sequence[tuple[str, Any]], target: Any, frame: FrameType) -> str:
    frames, modules = user_frames(frame), running_modules(frame)
    found = [_find(name, tensor, frames, modules) for name, tensor in operands]
    if all(item.kind == "value" for item in found):
        return ""
    held = [f.tensor.device for f in found if f.kind == "parameter"]
    wanted = held[0] if held and held[0].type == "cuda" else target
    lines = [_described(item) for item in found]
    stray = [item for item in found if item.tensor.device is not wanted]
    lines += [f"To fix it: {_fix(item, wanted, frames)}" for item in stray[:1]]
    return "".join(f"\n  {line}" for line in lines)


def _find(
    operand: str, tensor: Any, frames: list[FrameType], modules: list[tuple[Any, str]]
) -> Found:
    root = modules[-1][1] if modules else ""
    for exact in (True, False):
        for kind, name, owner, attribute in _held(modules):
            value, path = name
            if _same(value, tensor, exact):
                shown = path if exact else f"a view of {path}"
                place, text = attribute_set_in(type(owner), attribute)
                return Found(operand, tensor, kind, shown, owner, attribute, root, place, text)
        for frame in reversed(frames):  # where the program first had it
            for variable, value in frame.f_locals.items():
                if isinstance(value, Tensor) and _same(value, tensor, exact):
                    place, text = assignment_of(variable, frame)
                    shown = variable if exact else f"a view of {variable}"
                    rest = (frame, variable, root, place, text)
                    return Found(operand, tensor, "variable", shown, *rest)
    return Found(operand, tensor, "value", "", None, "", root, None, "")


def _same(value: Any, tensor: Any, exact: bool) -> bool:
    if exact:
        return value is tensor
    return value._array.storage is tensor._array.storage


def _held(modules: list[tuple[Any, str]]) -> Iterator[tuple[str, Any, Any, str]]:
    """(kind, (tensor, path), module, attribute) of all that the running modules hold, innermost
    first."""
    seen = set()
    for running, path in modules:
        for inner, module in running.named_modules():
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield from tensors_of(module, path + written(inner))


def tensors_of(module: Any, path: str) -> Iterator[tuple[str, Any, Any, str]]:
    """(kind, (tensor, path), module, attribute) of the tensors that a module itself holds."""
    for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
        for name, tensor in held.items():
            if tensor is not None:
                yield kind, (tensor, f"{path}.{name}"), module, name
    for name, value in list(vars(module).items()):
        if name in ("_parameters", "_buffers", "_modules"):
            continue
        for tensor, inner in contained(value, Tensor):
            yield "attribute", (tensor, f"{path}.{name}{inner}"), module, name


def contained(value: Any, kind: type, depth: int = 3) -> Iterator[tuple[Any, str]]:
    """Objects of a kind in a value, itself or inside lists, tuples and dicts, with the index that
    leads there."""
    if isinstance(value, kind):
        yield value, ""
    elif depth and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from ((v, f"[{index}]{path}") for v, path in contained(item, kind, depth - 1))
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from ((v, f"[{key!r}]{path}") for v, path in contained(item, kind, depth - 1))


_KINDS = {
    "attribute": "a plain attribute, which moves of the module leave behind",
    "parameter": "a parameter",
    "buffer": "a buffer",
}


def _described(item: Found) -> str:
    tensor = item.tensor
    if item.kind == "value":
        return f"{item.operand}, on {tensor.device}: a value computed in this expression"
    if item.kind == "variable":
        frame = item.owner
        where = f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
        what = f"a variable in {frame.f_code.co_name} ({where})"
    else:
        what = _KINDS[item.kind]
    line = f"{item.operand} is {item.name}, on {tensor.device}: {what}"
    if item.place is not None and item.text:
        line += f"; set at {short(item.place[0])}:{item.place[1]}: {item.text}"
    moved = moved_at.get(tensor._array.storage)
    if moved is not None:
        line += f"; moved to {tensor.device} at {short(moved[0])}:{moved[1]}"
    return line


def _fix(item: Found, wanted: Any, frames: list[FrameType]) -> str:
    name = item.name.removeprefix("a view of ")
    if item.kind == "attribute":
        where = "" if item.place is None else f" ({short(item.place[0])}:{item.place[1]})"
        root = item.root or name.partition(".")[0]
        kind = type(item.owner).__name__
        value = item.text.partition("=")[2].strip() or item.attribute
        if "[" in name[len(name.rpartition(".")[0]) :]:
            return (
                f"{kind}{where} keeps tensors in {item.attribute}: register each as a buffer, so "
                f"that {root}.to('{wanted}') moves them"
            )
        return (
            f"in {kind}{where} write self.register_buffer({item.attribute!r}, {value}, "
            f"persistent=False), so that {root}.to('{wanted}') moves it"
        )
    if item.kind in ("parameter", "buffer"):
        return f"{item.root} = {item.root}.to('{wanted}') before it is called"
    if item.kind == "variable":
        where = f"{short(item.owner.f_code.co_filename)}:{item.owner.f_lineno}"
        return f"{name} = {name}.to('{wanted}') before {where}"
    line = frames[0] if frames else None
    where = "" if line is None else f" at {short(line.f_code.co_filename)}:{line.f_lineno}"
    return f"move {item.operand} with .to('{wanted}'){where}"
