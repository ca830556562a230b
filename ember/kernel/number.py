"""`Slot`: a number of a bound call that changes between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Slot:
    """Holds a number, and writes it into the argument lists of the calls that take it."""

    __slots__ = ("targets", "value")

    def __init__(self, value: float):
        self.value = value
        self.targets: list[tuple[list[Any], int]] = []

    def join(self, arguments: list[Any]) -> None:
        """Be the last argument of a list from now on."""
        self.targets.append((arguments, len(arguments)))
        arguments.append(self.value)

    def set(self, value: float) -> None:
        """Change the number."""
        if value != self.value:
            self.value = value
            for arguments, position in self.targets:
                arguments[position] = value


def has_slots(operands: tuple[Any, ...]) -> bool:
    """Whether a call's operands change between runs."""
    return any(isinstance(o, Slot) for o in operands)


def called_with(function: Callable[..., Any], operands: tuple[Any, ...]) -> Callable[[], Any]:
    """A function that calls another with operands, whatever numbers they hold then."""
    arguments: list[Any] = []
    for operand in operands:
        if isinstance(operand, Slot):
            operand.join(arguments)
        else:
            arguments.append(operand)
    return lambda: function(*arguments)
