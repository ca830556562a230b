"""Schemas of operators: "name.overload(Tensor x, int n=1, *, float z=1.0) -> Tensor", the names and
defaults of their arguments, and what a call may give for them."""

from __future__ import annotations

import re
from typing import Any

from ember import dtypes
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.errors import check

_ACCEPTED: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "SymInt": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "Scalar": (int, float, bool, complex),
    "Device": (Device, str),
    "ScalarType": (dtypes.dtype,),
}


class Argument:
    """One argument of a schema: its type as it is written, whether it is written into."""

    def __init__(self, text: str, kwarg_only: bool):
        declared, _, default = text.partition("=")
        self.written_type, _, self.name = declared.strip().rpartition(" ")
        self.kwarg_only = kwarg_only
        self.has_default = bool(default)
        self.default_text = default.strip()
        self.is_write = "!" in self.written_type
        self.type = re.sub(r"\([a-z]!?\)", "", self.written_type).strip()
        self.default_value = _value(self.default_text, self.type) if default else None

    @property
    def optional(self) -> bool:
        """Whether None is a value for it."""
        return self.type.endswith("?")

    def accepts(self, value: Any) -> bool:
        """Whether a call may give this value for it."""
        kind = self.type
        if kind.endswith("?"):
            if value is None:
                return True
            kind = kind[:-1]
        if "[" in kind:
            element, _, size = kind.rstrip("]").rpartition("[")
            if not isinstance(value, (list, tuple)):
                return bool(size) and _is_of(value, element)
            optional = element.endswith("?")
            return all((optional and v is None) or _is_of(v, element.rstrip("?")) for v in value)
        return _is_of(value, kind)

    def __repr__(self) -> str:
        return f"{self.written_type} {self.name}" + (
            f"={_shown(self.default_value, self.default_text)}" if self.has_default else ""
        )


def _is_of(value: Any, kind: str) -> bool:
    accepted = _ACCEPTED.get(kind)
    if accepted is None:
        return True
    if isinstance(value, bool) and kind in ("int", "float"):
        return kind == "float"
    if not isinstance(value, accepted) and kind in ("int", "SymInt") and hasattr(value, "item"):
        return getattr(value, "ndim", 1) == 0
    return isinstance(value, accepted)


def _value(text: str, kind: str) -> Any:
    if text == "None":
        return None
    if text in ("True", "False"):
        return text == "True"
    if text.startswith(("'", '"')):
        text = text[1:-1]
        return Device(text) if kind.startswith("Device") else text
    if text.startswith("["):
        inside = text[1:-1].strip()
        return [_value(part.strip(), "") for part in inside.split(",")] if inside else []
    for number in (int, float):
        try:
            found = number(text)
        except ValueError:
            continue
        return float(found) if kind.startswith("float") else found
    return getattr(dtypes, text, getattr(dtypes, text + "_", text))


def _shown(value: Any, text: str) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    return f'"{value}"' if text.startswith(("'", '"')) else str(text if value is None else value)


def _split(text: str) -> list[str]:
    """The parts between commas that are in no bracket or quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


class FunctionSchema:
    """What an operator takes and gives. RuntimeError for text that is no schema.

    >>> from ember.ops.schemas import FunctionSchema
    >>> schema = FunctionSchema("lib::scale(Tensor x, *, float by=2.0) -> Tensor")
    >>> schema.name, [a.name for a in schema.arguments]
    ('lib::scale', ['x', 'by'])
    """

    def __init__(self, text: str):
        found = re.fullmatch(r"\s*([\w:]+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*", text, re.S)
        check(
            found is not None,
            RuntimeError,
            f'{text!r} is no schema of an operator: write "name(Tensor x, int n=1) -> Tensor"',
        )
        assert found is not None
        self.name, self.overload_name = found[1], found[2] or ""
        self.arguments: list[Argument] = []
        kwarg_only = False
        for part in _split(found[3]):
            if part == "*":
                kwarg_only = True
            else:
                self.arguments.append(Argument(part, kwarg_only))
        self.returned = found[4]

    @property
    def returns(self) -> list[str]:
        """The types of the results."""
        text = self.returned
        return _split(text[1:-1]) if text.startswith("(") else [text]

    @property
    def is_mutable(self) -> bool:
        """Whether an argument is written into."""
        return any(a.is_write for a in self.arguments)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in order, without those left at their defaults at the
        end. RuntimeError for calls that do not fit."""
        positional = [a for a in self.arguments if not a.kwarg_only]
        check(
            len(args) <= len(positional),
            RuntimeError,
            f"{self.name}() expected at most {len(positional)} argument(s) but received "
            f"{len(args)} argument(s). Declaration: {self}",
        )
        given = dict(zip((a.name for a in positional), args, strict=False))
        known = {a.name for a in self.arguments}
        for name, value in kwargs.items():
            check(
                name in known,
                RuntimeError,
                f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}",
            )
            check(
                name not in given,
                RuntimeError,
                f"{self.name}() got multiple values for argument '{name}'. Declaration: {self}",
            )
            given[name] = value
        values: dict[str, Any] = {}
        for position, argument in enumerate(self.arguments):
            name = argument.name
            check(
                name in given or argument.has_default,
                RuntimeError,
                f"{self.name}() is missing value for argument '{name}'. Declaration: {self}",
            )
            value = values[name] = given.get(name, argument.default_value)
            if name in given and not argument.accepts(value):
                wanted = argument.type.replace("SymInt", "int")
                raise RuntimeError(
                    f"{self.name}() Expected a value of type '{wanted}' for argument '{name}' but "
                    f"instead found type '{type(value).__name__}'.\nPosition: {position}\n"
                    f"Value: {value!r}\nDeclaration: {self}"
                )
        return values

    def split(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Bound arguments as (positional, by keyword)."""
        args = [values[a.name] for a in self.arguments if not a.kwarg_only]
        return args, {a.name: values[a.name] for a in self.arguments if a.kwarg_only}

    def __str__(self) -> str:
        shown, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                shown.append("*")
                starred = True
            shown.append(repr(argument))
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(shown)}) -> {self.returned}"

    __repr__ = __str__
