"""A schema from a function's annotations."""

from __future__ import annotations

import functools
import operator
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check

_PLAIN = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    DType: "ScalarType",
    Device: "Device",
    int | float | bool: "Scalar",
    int | float: "Scalar",
}


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Any,
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema that a function's annotations mean; `mutates_args` names the tensors that it
    writes into. ValueError for annotations that are missing or that no schema can say.

    >>> import ember as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    import inspect  # slow to import, and only needed where operators are defined

    signature = inspect.signature(prototype_function)

    def refuse(what: str) -> ValueError:
        return ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    hints = typing.get_type_hints(prototype_function)
    shown, starred, seen = [], False, set()
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        if name not in hints:
            raise refuse(f"Parameter {name} must have a type annotation.")
        kind = _type(hints[name])
        if kind is None:
            raise refuse(
                f"Parameter {name} has unsupported type {hints[name]}. The valid types are "
                "tensors, int, float, bool, str, torch.dtype, torch.device, Optional and Sequence "
                "of them."
            )
        seen.add(name)
        if mutates_args == "unknown" or name in mutates_args:
            if kind.startswith("Tensor"):
                kind = f"Tensor(a{index}!){kind[6:]}"
            elif mutates_args != "unknown":
                raise refuse(f"Parameter {name} is in mutates_args but only Tensors can be.")
        default = "" if parameter.default is parameter.empty else _default(parameter, refuse)
        shown.append(f"{kind} {name}{default}")
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - seen
    if unknown:
        raise refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    return f"{op_name or ''}({', '.join(shown)}) -> {_returned(hints, refuse)}"


def _type(hint: Any) -> str | None:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in inside:
        rest = [part for part in inside if part is not type(None)]
        part = _type(functools.reduce(operator.or_, rest))
        return None if part is None else part + "?"
    if origin in (list, Sequence) and len(inside) == 1:
        part = _type(inside[0])
        return None if part is None else part + "[]"
    return None


def _default(parameter: Any, refuse: Callable[[str], ValueError]) -> str:
    value = parameter.default
    if value is None or isinstance(value, (bool, int, float)):
        return f"={value}"
    if isinstance(value, (str, Device)):
        return f'="{value}"'
    if isinstance(value, DType):
        return f"={str(value).removeprefix('torch.')}"
    raise refuse(
        f"Parameter {parameter.name} has an unsupported default value type {type(value)}: use a "
        "number, a string, None, a dtype or a device."
    )


def _returned(hints: dict[str, Any], refuse: Callable[[str], ValueError]) -> str:
    if "return" not in hints:
        raise refuse("No return type annotation was provided. Please add one.")
    hint = hints["return"]
    if hint is None or hint is type(None):
        return "()"
    several = typing.get_origin(hint) is tuple
    parts = [_type(part) for part in (typing.get_args(hint) if several else (hint,))]
    if None in parts:
        raise refuse(f"Return has unsupported type {hint}.")
    listed = ", ".join(part for part in parts if part)
    return f"({listed})" if several else listed


def check_mutated(mutates_args: Any) -> None:
    """ValueError for a name given alone where names are wanted."""
    check(
        not isinstance(mutates_args, str) or mutates_args == "unknown",
        ValueError,
        "mutates_args must either be a sequence of the names of the arguments that are mutated or "
        "the string 'unknown'.",
    )
