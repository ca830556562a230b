"""Names of nodes and of globals in generated code: unique, and no keyword or builtin."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import defaultdict
from typing import Any

RESERVED = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})


def snake_case(text: str) -> str:
    """A class's name as a variable's: "AvgPool2d" -> "avg_pool2d"."""
    if text.islower() or not text:
        return text
    split = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text)
    return re.sub(r"(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1", split).lower()


class Namespace:
    """The names in use, and the objects that some of them are for."""

    def __init__(self) -> None:
        self._obj_to_name: dict[int, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """A free name like `candidate`, the same again for the same object."""
        if obj is not None and id(obj) in self._obj_to_name:
            return self._obj_to_name[id(obj)]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        while candidate in self._used or self._is_illegal(candidate, obj):
            match = re.fullmatch(r"(.*)_(\d+)", candidate)
            base = match[1] if match else candidate
            number = max(self._counts[base] + 1, int(match[2]) + 1 if match else 1)
            self._counts[base] = number
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        if obj is not None:
            self._obj_to_name[id(obj)] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Note that a name in use is for an object."""
        self._obj_to_name[id(obj)] = name

    def _is_illegal(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in vars(builtins):
            return vars(builtins)[name] is not obj
        return name in RESERVED
