"""`Cell`: a number that a recording asks for again at each replay, and what is computed of such.

Arithmetic of cells makes cells. A comparison, or the truth of one, is a bool as ever, and becomes
a condition of the recording: where it would come out differently, the recording is not right.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

Rule = Callable[[list[Any]], Any]


class Tape:
    """The cells of one recording in the order in which they were made, each with the rule that
    computes it from those before."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.values: list[Any] = []
        self.expected: list[tuple[int, bool]] = []
        self.refusal: str | None = None
        self._known: dict[Any, Any] = {}

    def cell(self, key: Any, value: float, rule: Rule) -> Cell:
        """The cell of a key: a new one with this rule, or the one that is there."""
        found: Cell | None = self._known.get(key)
        if found is None:
            found = self._known[key] = Cell(value)
            found.tape, found.position = self, self._append(value, rule)
        return found

    def _append(self, value: Any, rule: Rule) -> int:
        self.rules.append(rule)
        self.values.append(value)
        return len(self.rules) - 1

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """A function of cells and numbers as a cell, or as a bool that is expected again."""
        value = function(*map(float, operands))
        key = (function, *((type(o), o.position if isinstance(o, Cell) else o) for o in operands))
        if isinstance(value, bool):
            if key not in self._known:
                self._known[key] = value
                self.expected.append((self._append(value, _rule(function, operands)), value))
            return value
        if not isinstance(value, float):
            self.refusal = f"an optimizer's number is {value}"
            return value
        return self.cell(key, value, _rule(function, operands))

    def run(self) -> bool:
        """Compute all cells anew; whether every condition is as it was."""
        values: list[Any] = []
        for rule in self.rules:
            values.append(rule(values))
        self.values = values
        return all(values[position] == value for position, value in self.expected)


def _rule(function: Callable[..., Any], operands: tuple[Any, ...]) -> Rule:
    if len(operands) == 1:
        first = operands[0].position
        return lambda values: function(values[first])
    a, b = operands
    if isinstance(a, Cell) and isinstance(b, Cell):
        left, right = a.position, b.position
        return lambda values: function(values[left], values[right])
    if isinstance(a, Cell):
        left = a.position
        return lambda values: function(values[left], b)
    right = b.position
    return lambda values: function(a, values[right])


def _method(function: Callable[..., Any], swapped: bool = False) -> Any:
    def method(self: Cell, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tape.apply(function, *((other, self) if swapped else (self, other)))

    return method


class Cell(float):
    """A float of a recording; `position` is its place on the tape."""

    __slots__ = ("position", "tape")
    tape: Tape
    position: int

    __add__, __radd__ = _method(operator.add), _method(operator.add, True)
    __sub__, __rsub__ = _method(operator.sub), _method(operator.sub, True)
    __mul__, __rmul__ = _method(operator.mul), _method(operator.mul, True)
    __truediv__, __rtruediv__ = _method(operator.truediv), _method(operator.truediv, True)
    __pow__, __rpow__ = _method(operator.pow), _method(operator.pow, True)
    __lt__, __le__ = _method(operator.lt), _method(operator.le)
    __gt__, __ge__ = _method(operator.gt), _method(operator.ge)
    __eq__, __ne__ = _method(operator.eq), _method(operator.ne)
    __hash__ = float.__hash__

    def __neg__(self) -> Any:
        return self.tape.apply(operator.neg, self)

    def __bool__(self) -> bool:
        return bool(self.tape.apply(operator.truth, self))
