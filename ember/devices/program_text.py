"""What a program's own text says: the line that last set a variable or an attribute."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

Setting = tuple[tuple[str, int] | None, str]  # ((file, line), the line's text)
NOT_FOUND: Setting = (None, "")
_LONGEST = 90


def assignment_of(name: str, frame: FrameType) -> Setting:
    """The last line before the one that a frame is at, in its function, that assigns a variable."""
    file, code = frame.f_code.co_filename, frame.f_code
    tree = _parsed(file)
    if tree is None:
        return NOT_FOUND
    body: Any = tree
    if code.co_name != "<module>":
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == code.co_name
            and _first_line(node) == code.co_firstlineno
        ]
        if not functions:
            return NOT_FOUND
        body = functions[0]
    lines = [
        line
        for target, line in _targets(body)
        if isinstance(target, ast.Name) and target.id == name and line < frame.f_lineno
    ]
    return _at(file, max(lines)) if lines else NOT_FOUND


def attribute_set_in(kind: type, name: str) -> Setting:
    """The line of a class, or of a class that it inherits from, that sets `self.name`."""
    for each in kind.__mro__:
        module = sys.modules.get(each.__module__)
        file = getattr(module, "__file__", None)
        if file is None or each.__module__.startswith("ember."):
            continue
        tree = _parsed(file)
        for node in ast.walk(tree) if tree is not None else ():
            if not (isinstance(node, ast.ClassDef) and node.name == each.__name__):
                continue
            for target, line in _targets(node):
                if (
                    isinstance(target, ast.Attribute)
                    and target.attr == name
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                ):
                    return _at(file, line)
    return NOT_FOUND


def _first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _parsed(file: str) -> ast.Module | None:
    text = "".join(linecache.getlines(file))
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def _targets(node: Any) -> Iterator[tuple[Any, int]]:
    """What is assigned in a piece of program, with the line."""
    for child in ast.walk(node):
        targets: list[Any] = []
        if isinstance(child, ast.Assign):
            targets = child.targets
        elif isinstance(child, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            targets = [child.target]
        elif isinstance(child, (ast.With, ast.AsyncWith)):
            targets = [item.optional_vars for item in child.items if item.optional_vars]
        while targets:
            target = targets.pop()
            if isinstance(target, (ast.Tuple, ast.List)):
                targets.extend(target.elts)
            else:
                yield target, child.lineno


def _at(file: str, line: int) -> Setting:
    text = linecache.getline(file, line).strip()
    return (file, line), text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
