"""Line search for the strong Wolfe conditions, by bracketing and cubic interpolation (Nocedal
and Wright, 2006)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ember.core.tensor import Tensor

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 0.9
SMALLEST_CHANGE = 1e-9
MOST_EVALUATIONS = 25


class Point(NamedTuple):
    """A step along the direction: the loss there, its gradient, and its slope along the
    direction."""

    step: Any
    loss: Any
    grad: Tensor
    slope: Any


def strong_wolfe(
    evaluate: Callable[[Any], tuple[Any, Tensor]],
    step: Any,
    direction: Tensor,
    loss: Any,
    grad: Tensor,
    slope: Any,
) -> tuple[Any, Tensor, Any, int]:
    """(loss, gradient, step, evaluations) of a step that decreases the loss enough and flattens its
    slope enough.

    `evaluate(step)` gives loss and gradient at that step; `loss`, `grad` and `slope` are those at
    0.
    """
    search = _Search(evaluate, direction, Point(0, loss, grad.clone(), slope))
    bracket, done = search.bracket(step)
    return search.zoom(bracket, done)


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum, within bounds, of the cubic with the losses and slopes of two points; else
    the middle."""
    low, high = bounds if bounds is not None else (min(a.step, b.step), max(a.step, b.step))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    squared = d1**2 - a.slope * b.slope
    if squared < 0:
        return (low + high) / 2.0
    d2 = squared**0.5
    if a.step <= b.step:
        at = b.step - (b.step - a.step) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        at = a.step - (a.step - b.step) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(at, low), high)


class _Search:
    def __init__(
        self, evaluate: Callable[[Any], tuple[Any, Tensor]], direction: Tensor, origin: Point
    ):
        self.evaluate, self.direction, self.origin = evaluate, direction, origin
        self.length = direction.abs().max()
        self.evaluations = 0
        self.iterations = 0

    def at(self, step: Any) -> Point:
        loss, grad = self.evaluate(step)
        self.evaluations += 1
        return Point(step, loss, grad.clone(), grad.dot(self.direction))

    def too_high(self, point: Point) -> bool:
        origin = self.origin
        return bool(point.loss > origin.loss + SUFFICIENT_DECREASE * point.step * origin.slope)

    def flat(self, point: Point) -> bool:
        return bool(abs(point.slope) <= -CURVATURE * self.origin.slope)

    def bracket(self, step: Any) -> tuple[list[Point], bool]:
        """Two points around an acceptable step, or one that is acceptable (and True)."""
        previous, point = self.origin, self.at(step)
        while self.iterations < MOST_EVALUATIONS:
            if self.too_high(point) or (self.iterations > 1 and point.loss >= previous.loss):
                return [previous, point], False
            if self.flat(point):
                return [point], True
            if point.slope >= 0:
                return [previous, point], False
            least = point.step + 0.01 * (point.step - previous.step)
            step = cubic_minimum(previous, point, (least, point.step * 10))
            previous, point = point, self.at(step)
            self.iterations += 1
        return [self.origin, point], False

    def zoom(self, bracket: list[Point], done: bool) -> tuple[Any, Tensor, Any, int]:
        """Narrow the bracket until its better end is acceptable or it is too short to matter."""
        stuck = False
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        while not done and self.iterations < MOST_EVALUATIONS:
            width = abs(bracket[1].step - bracket[0].step)
            if width * self.length < SMALLEST_CHANGE:
                break
            step, stuck = self._inside(cubic_minimum(*bracket), bracket, stuck)
            point = self.at(step)
            self.iterations += 1
            if self.too_high(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            if self.flat(point):
                done = True
            elif point.slope * (bracket[high].step - bracket[low].step) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
        best = bracket[low if len(bracket) > 1 else 0]
        return best.loss, best.grad, best.step, self.evaluations

    @staticmethod
    def _inside(step: Any, bracket: list[Point], stuck: bool) -> tuple[Any, bool]:
        """`step` kept a tenth of the bracket away from its ends, when it was near one twice or
        is beyond it."""
        top, bottom = max(p.step for p in bracket), min(p.step for p in bracket)
        margin = 0.1 * (top - bottom)
        if min(top - step, step - bottom) >= margin:
            return step, False
        if not stuck and bottom < step < top:
            return step, True
        return (top - margin if abs(step - top) < abs(step - bottom) else bottom + margin), False
