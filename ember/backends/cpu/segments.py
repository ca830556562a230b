"""Reductions of the segments of an array along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

# how elements are combined, and what there is for none
COMBINED: dict[str, tuple[Any, float]] = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


def segment_reduce(data: Any, ends: Any, reduce: str, axis: int, initial: Any) -> Any:
    """Segment s of a row of `ends` (..., n + 1) is data[..., ends[s] : ends[s + 1]] along `axis`,
    the last dim of `ends`; an empty one gives `initial`, or NaN for a mean without it."""
    combine, none = COMBINED[reduce]
    start = none if initial is None else initial
    rows, rest = data.shape[:axis], data.shape[axis + 1 :]
    count = ends.shape[-1] - 1
    out = np.full((*rows, count, *rest), start, data.dtype)
    for row in np.ndindex(rows):
        bounds = ends[row].tolist()
        for segment in range(count):
            part = data[row][bounds[segment] : bounds[segment + 1]]
            if len(part):
                out[row][segment] = combine.reduce(part, 0, initial=start)
                if reduce == "mean":
                    out[row][segment] /= len(part)
            elif reduce == "mean" and initial is None:
                out[row][segment] = np.nan
    return out
