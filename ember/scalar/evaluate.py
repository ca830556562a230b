"""A formula as a NumPy function: the reference meaning of every op, and the path for small
arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.scalar.expr import Expr, topological
from ember.scalar.primitives import ROW_REDUCTIONS, TABLE


def numpy_function(name: str) -> Any:
    """The NumPy or SciPy function of a primitive."""
    function = TABLE[name].function
    if isinstance(function, str):
        return getattr(importlib.import_module("scipy.special"), function)
    return function


def is_late(op: str) -> bool:
    """Whether the function of a primitive is one of SciPy's."""
    return op in TABLE and isinstance(TABLE[op].function, str)


def single_ufunc(roots: tuple[Expr, ...], names: list[str]) -> Any:
    """The ufunc that a formula is, if it is just one primitive of its variables in order; else
    None."""
    if (
        len(roots) != 1
        or [a.value if a.op == "var" else None for a in roots[0].args] != names
        or not names
    ):
        return None
    function = numpy_function(roots[0].op) if roots[0].op in TABLE else None
    return function if isinstance(function, np.ufunc) else None


def compile_numpy(
    roots: tuple[Expr, ...], names: list[str], compute: Any, axes: tuple[int, ...] = ()
) -> Callable[..., Any]:
    """A function of ndarrays (or NumPy scalars) named `names` that returns the values of `roots`.

    `compute` is the dtype of constants; `axes` are the dims of a row for row programs.
    One root gives its value, several a tuple.
    """
    scope: dict[str, Any] = {"where": np.where, "axes": axes}
    lines, text = [], {}
    for count, node in enumerate(topological(roots)):
        if node.op == "var":
            text[node] = node.value
            continue
        if node.op == "stop":
            text[node] = text[node.args[0]]
            continue
        text[node] = f"t{count}"
        arguments = ", ".join(text[a] for a in node.args)
        if node.op == "const":
            scope[text[node]] = constant(node.value, compute)
        elif node.op in ROW_REDUCTIONS:
            scope[f"f{count}"] = ROW_REDUCTIONS[node.op].reduce
            lines.append(f"{text[node]} = f{count}({arguments}, axes, keepdims=True)")
        elif node.op == "row_size":
            lines.append(f"{text[node]} = row_size({names[0]}, axes)")
            scope["row_size"] = _row_size
        else:
            scope[f"f{count}"] = _found_late(scope, f"f{count}", node.op)
            lines.append(f"{text[node]} = f{count}({arguments})")
    values = ", ".join(text[root] for root in roots)
    body = "".join(f"    {line}\n" for line in lines)
    source = f"def formula({', '.join(names)}):\n{body}    return {values}\n"
    exec(compile(source, "<ember formula>", "exec"), scope)
    function: Callable[..., Any] = scope["formula"]
    return function


def _found_late(scope: dict[str, Any], name: str, op: str) -> Any:
    """The function of a primitive; SciPy's, which take a third of a second to load, when one is
    first called, which a formula that runs compiled never does."""
    if not is_late(op):
        return numpy_function(op)

    def load(*arguments: Any) -> Any:
        scope[name] = numpy_function(op)
        return scope[name](*arguments)

    return load


def constant(value: Any, compute: Any) -> Any:
    """A constant of a formula in the compute dtype (booleans and numbers beyond it stay what they
    are)."""
    if isinstance(value, (bool, np.bool_)):
        return np.bool_(value)
    kind = np.dtype(compute).kind
    if kind == "b" or (kind in "iu" and isinstance(value, float)):
        return value
    try:
        return np.dtype(compute).type(value)
    except OverflowError:
        return np.array(value).astype(compute)[()]


def _row_size(x: Any, axes: tuple[int, ...]) -> Any:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return x.dtype.type(count)
