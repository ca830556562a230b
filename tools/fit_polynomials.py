"""The minimax polynomials of ember/scalar/approximations.py, by Remez' exchange in 40 digits.

    pip install mpmath
    python tools/fit_polynomials.py

Prints the coefficients, the constant first, and the greatest weighted error of each. E. W. Cheney,
Introduction to Approximation Theory (1966), chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import mpmath as mp

mp.mp.dps = 40
GRID = 2000
Function = Callable[[mp.mpf], mp.mpf]


def solve(f: Function, weight: Function, points: list[mp.mpf]) -> list[mp.mpf]:
    """The polynomial whose weighted error is equal and alternating at the points."""
    size = len(points)
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for i, x in enumerate(points):
        for j in range(size - 1):
            matrix[i, j] = x**j
        matrix[i, size - 1] = (-1) ** i / weight(x)
        right[i] = f(x)
    return list(mp.lu_solve(matrix, right))[:-1]


def extremes(errors: list[mp.mpf], wanted: int) -> list[int]:
    """Where the error is greatest between its changes of sign, `wanted` places at most."""
    bounds = [0]
    bounds += [k for k in range(1, len(errors)) if (errors[k] > 0) != (errors[k - 1] > 0)]
    bounds.append(len(errors))
    found = [max(range(a, b), key=lambda k: abs(errors[k])) for a, b in pairwise(bounds)]
    while len(found) > wanted:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


def fit(f: Function, low: mp.mpf, high: mp.mpf, degree: int, weight: Function) -> str:
    """The best polynomial of a degree on an interval, as text."""
    middle, half, count = (low + high) / 2, (high - low) / 2, degree + 2
    points = [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    grid = [low + (high - low) * k / GRID for k in range(GRID + 1)]
    coefficients: list[mp.mpf] = []
    worst = mp.mpf(0)
    for _ in range(12):
        coefficients = solve(f, weight, points)
        errors = [weight(x) * (f(x) - mp.polyval(coefficients[::-1], x)) for x in grid]
        worst = max(abs(e) for e in errors)
        places = extremes(errors, count)
        if len(places) < count:
            break
        points = [grid[k] for k in places]
    return f"{', '.join(mp.nstr(c, 12) for c in coefficients)}   error {mp.nstr(worst, 3)}"


def near(limit: mp.mpf, f: Function) -> Function:
    """`f`, and its limit where it would divide zero by zero."""
    return lambda x: limit if abs(x) < mp.mpf(10) ** -9 else f(x)


def main() -> None:
    """Fit and print each of them."""
    one, half_ln2 = mp.mpf(1), mp.log(2) / 2
    tail_of_exp = near(one / 2, lambda r: (mp.exp(r) - 1 - r) / r**2)
    low, high = mp.sqrt(one / 2) - 1, mp.sqrt(2) - 1
    tail_of_log = near(one / 3, lambda f: (mp.log1p(f) - f + f * f / 2) / f**3)
    tail_of_tanh = near(-one / 3, lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s)
    erf = near(2 / mp.sqrt(mp.pi), lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s))
    quarter = (mp.pi / 4) ** 2 * mp.mpf("1.001")
    tail_of_sin = near(-one / 6, lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s)
    tail_of_cos = near(one / 24, lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2)
    small = mp.mpf(10) ** -6
    for name, text in (
        ("EXP", fit(tail_of_exp, -half_ln2, half_ln2, 4, lambda r: r * r / mp.exp(r) + small)),
        ("EXPM1", fit(tail_of_exp, -half_ln2, half_ln2, 5, lambda r: abs(r) + 100 * small)),
        ("LOG", fit(tail_of_log, low, high, 8, lambda f: f * f + 100 * small)),
        ("TANH", fit(tail_of_tanh, mp.mpf(0), mp.mpf("0.625") ** 2, 4, lambda s: s + small)),
        ("ERF", fit(erf, mp.mpf(0), one, 6, lambda s: one)),
        ("ERFC", fit(lambda x: -mp.log(mp.erfc(x)), mp.mpf("0.98"), mp.mpf(4), 8, mp.erfc)),
        ("SIN", fit(tail_of_sin, mp.mpf(0), quarter, 3, lambda s: s + small)),
        ("COS", fit(tail_of_cos, mp.mpf(0), quarter, 3, lambda s: s * s + small)),
    ):
        print(f"{name:6} {text}")


if __name__ == "__main__":
    main()
