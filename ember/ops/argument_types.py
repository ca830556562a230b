"""Which arguments of elementwise ops must be tensors: TypeErrors for numbers there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ember.core.tensor import Tensor


def check_tensor(name: str, parameter: str, position: int, value: Any) -> None:
    """TypeError unless an argument is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name}(): argument '{parameter}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def require_tensors(ops: Iterable[Any], count: int) -> None:
    """Let ops raise TypeError where one of their first `count` arguments is not a tensor."""
    for op in ops:
        op.checks = _checks(op.name, op.parameters[:count], op.checks)


def _checks(name: str, parameters: tuple[str, ...], more: Any) -> Any:
    def checks(*values: Any) -> None:
        for position, parameter in enumerate(parameters):
            if not isinstance(values[position], Tensor):
                check_tensor(name, parameter, position + 1, values[position])
        if more is not None:
            more(*values)

    return checks
