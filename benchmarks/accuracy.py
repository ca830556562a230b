"""How far the compiled functions of float32 are from the exact values, in units of the last place.

    python benchmarks/accuracy.py [STEP]

Every STEP-th float32 (default 101), from -infinity to infinity, and NaN, is put through each
function of ember/scalar/approximations.py; the exact values are float64's. Prints a Markdown table:
the greatest and the mean distance, and where the greatest is, beside NumPy's own float32 function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from ember.backends.cpu.native import builtin, vector_bytes
from ember.kernel.loops import FLAT, Kernel, Operand, kernel_text
from ember.scalar import primitives
from ember.scalar.approximations import FUNCTIONS
from ember.scalar.expr import make, var

CHUNK = 1 << 22
EXACT: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "sin", "cos")
}
EXACT |= {"sigmoid": scipy.special.expit, "erf": scipy.special.erf}


def compiled(name: str) -> Callable[[Any], Any]:
    """The function as the kernel compiler makes it."""
    assert name in primitives.TABLE
    lanes = vector_bytes() // 4
    formula = make(name, var("x"))
    kernel = Kernel((formula,), (Operand("x", "float"),), ("float",), "float", lanes, FLAT)
    run = builtin(kernel_text(kernel))

    def apply(x: Any) -> Any:
        out = np.empty_like(x)
        run(x, out, np.array([x.size, 1]), np.empty(0, np.float32), 0, x.size)
        return out

    return apply


def distances(found: Any, exact: Any) -> Any:
    """Distances in ulp where both are finite; infinite where one is not as it should be."""
    rounded = exact.astype(np.float32)
    with np.errstate(all="ignore"):
        ulp = np.abs(found - exact) / np.spacing(np.abs(rounded)).astype(np.float64)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(np.isfinite(rounded), ulp, np.where(same, 0, np.inf))


def row(name: str, step: int) -> str:
    """One function's line of the table."""
    function, worst, where, total, count, other = compiled(name), 0.0, 0.0, 0.0, 0, 0.0
    for start in range(0, 1 << 32, CHUNK * step):
        bits = np.arange(start, min(start + CHUNK * step, 1 << 32), step, dtype=np.uint64)
        x = bits.astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            exact = EXACT[name](x.astype(np.float64))
            error = distances(function(x), exact)
            other = max(other, float(distances(EXACT[name](x), exact).max()))
        place = int(error.argmax())
        if error[place] > worst:
            worst, where = float(error[place]), float(x[place])
        total, count = total + float(error.sum()), count + x.size
    return f"| {name} | {worst:.2f} | {where:.6g} | {total / count:.3f} | {other:.2f} |"


def main() -> None:
    """Print the table."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 101
    print("| function | greatest, ulp | at x = | mean, ulp | NumPy's greatest |")
    print("|---|---:|---:|---:|---:|")
    for name in FUNCTIONS:
        print(row(name, step), flush=True)


if __name__ == "__main__":
    main()
