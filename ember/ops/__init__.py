"""Every op of the public surface, by family. Names come from the registry; `ops.NAME` is
`torch.NAME`."""

from __future__ import annotations

import importlib
from typing import Any

FAMILIES = (
    "formats", "arithmetic", "rounding", "comparisons", "choices", "exponentials", "special", "activations", "pointwise", "moves",
    "views", "splits", "strided", "create", "ranges", "reduce", "norms", "moments", "rowwise", "joining", "indexing", "matmul", "legacy", "subclasses", "operators", "gathering",
    "index_slices", "masks", "scans", "rearranged", "diagonals", "stacks", "copies", "complex_numbers", "products", "einsum", "predicates", "statistics", "resizing", "sorting",
    "solving", "factorizations", "eigenvalues", "lu_factors", "reflections", "determinants", "least_squares", "matrix_functions", "fourier", "windows", "quantiles",
    "random_fill", "random", "sampling", "low_rank",
    "padding", "spectrograms", "rearrangement", "linear", "losses", "classification", "distances", "normalization",
    "convolution", "pooling", "adaptive_pooling", "unpooling", "interpolate", "grid_sampling",
    "embedding", "dropout", "attention", "multi_head_attention", "recurrent", "ctc", "gates", "other_signatures",
)  # fmt: skip
for _family in FAMILIES:
    importlib.import_module(f"ember.ops.{_family}")

from ember.core.registry import NAMESPACES  # noqa: E402


def __getattr__(name: str) -> Any:
    try:
        return NAMESPACES["torch"][name]
    except KeyError:
        raise AttributeError(f"module 'ember.ops' has no op {name!r}") from None
