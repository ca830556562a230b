"""Kernels of GPUs over places: triangles of matrices, where the greatest element is, the windows of
pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ember.backends.cuda.indexing import (
    Launcher,
    Runner,
    adding_type,
    around,
    dense,
    source,
    spread_to,
)
from ember.backends.cuda.prelude import C_TYPES, RAW
from ember.kernel.array import Array
from ember.kernel.call import LibraryCall


def _triangle(keep: str) -> Callable[[Any, LibraryCall], Runner | None]:
    def maker(kernels: Any, call: LibraryCall) -> Runner | None:
        spec, diagonal, out = call.in_specs[0], call.in_specs[1], call.out_specs[0]
        rows, columns = spec.shape[-2:]
        body = f"""    const i64 c = i % {max(columns, 1)};
    const i64 r = i / {max(columns, 1)} % {max(rows, 1)};
    E zero = {{}};
    out[i] = c - r {keep} {int(diagonal)} ? x[i] : zero;
"""
        raw = C_TYPES[RAW[spec.dtype.itemsize]]
        launch = Launcher(kernels, source("E* out, const E* x, i64 count", body, raw), "ppq")

        def run(x: Array, diagonal: int) -> Array:
            made: Array = kernels.empty(out)
            if out.numel:
                launch(out.numel, kernels.address(made), kernels.address(dense(kernels, x)))
            return made

        return run

    return maker


def _extreme(better: str) -> Callable[[Any, LibraryCall], Runner | None]:
    """The first place of the greatest or smallest element; NaN is both."""

    def maker(kernels: Any, call: LibraryCall) -> Runner | None:
        spec, out = call.in_specs[0], call.out_specs[0]
        dim = call.in_specs[1] if len(call.in_specs) > 1 else None
        if spec.dtype.name not in C_TYPES or not spec.numel:
            return None
        rows, size, inner = around(spec.shape, dim) if dim is not None else (1, spec.numel, 1)
        if rows * inner < 256 and size > 4096:
            return None  # one thread a row would be slow
        body = f"""    const E* row = x + i / {inner} * {size * inner}LL + i % {inner};
    i64 found = 0;
    auto best = widen(row[0]);
    for (i64 e = 1; e < {size} && best == best; ++e) {{
      const auto other = widen(row[e * {inner}]);
      if (other {better} best || other != other) {{ best = other; found = e; }}
    }}
    out[i] = found;
"""
        text = source("i64* out, const E* x, i64 count", body, C_TYPES[spec.dtype.name])
        launch = Launcher(kernels, text, "ppq")

        def run(x: Array, *how: Any) -> Array:
            made: Array = kernels.empty(out)
            launch(out.numel, kernels.address(made), kernels.address(dense(kernels, x)))
            return made

        return run

    return maker


def max_pool(kernels: Any, call: LibraryCall) -> Runner | None:
    """The greatest of each window over two dims, and where it is in its plane."""
    spec, kernel, stride, padding, dilation, sizes = call.in_specs[:6]
    if len(kernel) != 2 or spec.dtype.name not in C_TYPES:
        return None
    values, places = call.out_specs
    h, w = spec.shape[-2:]
    body = f"""    const i64 c = i % {sizes[1]}, r = i / {sizes[1]} % {sizes[0]};
    const E* plane = x + i / {sizes[0] * sizes[1]} * {h * w}LL;
    i64 found = -1;
    float best = 0;
    for (int a = 0; a < {kernel[0]}; ++a) {{
      const i64 y = r * {stride[0]} - {padding[0]} + a * {dilation[0]};
      if (y < 0 || y >= {h}) continue;
      for (int b = 0; b < {kernel[1]}; ++b) {{
        const i64 z = c * {stride[1]} - {padding[1]} + b * {dilation[1]};
        if (z < 0 || z >= {w}) continue;
        const auto other = widen(plane[y * {w} + z]);
        if (found < 0 || other > best || other != other) {{ best = other; found = y * {w} + z; }}
      }}
    }}
    out[i] = plane[found];
    places[i] = found;
"""
    if spec.dtype.name in ("float64", "int64", "int32"):
        body = body.replace("float best", f"{C_TYPES[spec.dtype.name]} best")
    text = source("E* out, i64* places, const E* x, i64 count", body, C_TYPES[spec.dtype.name])
    launch = Launcher(kernels, text, "pppq")

    def run(x: Array, *how: Any) -> tuple[Array, Array]:
        made, where = kernels.empty(values), kernels.empty(places)
        if values.numel:
            x = dense(kernels, x)
            launch(
                values.numel,
                kernels.address(made),
                kernels.address(where),
                kernels.address(x),
            )
        return made, where

    return run


def max_pool_backward(kernels: Any, call: LibraryCall) -> Runner | None:
    """A gradient added at the places that a pooling found."""
    spec, _, shape, dims = call.in_specs[:4]
    adding = adding_type(kernels, spec.dtype)
    if adding is None:
        return None
    kind, wide = adding
    out = call.out_specs[0]
    plane, windows = math.prod(shape[-dims:]), math.prod(spec.shape[-dims:])
    body = f"    atomicAdd(out + i / {max(windows, 1)} * {plane}LL + at[i], x[i]);\n"
    text = source("E* out, const E* x, const i64* at, i64 count", body, kind)
    launch = Launcher(kernels, text, "pppq")

    def run(g: Array, indices: Array, *how: Any) -> Array:
        held = kernels.empty(out.with_dtype(wide))
        kernels.fill(held, 0)
        if spec.numel:
            given = spread_to(kernels, g, spec.shape, wide)
            indices = dense(kernels, indices)
            launch(
                spec.numel,
                kernels.address(held),
                kernels.address(given),
                kernels.address(indices),
            )
        if wide is out.dtype:
            return held  # type: ignore[no-any-return]
        made: Array = kernels.empty(out)
        kernels.copy(made, held)
        return made

    return run


MAKERS: dict[str, Callable[[Any, LibraryCall], Runner | None]] = {
    "tril": _triangle("<="),
    "triu": _triangle(">="),
    "argmax": _extreme(">"),
    "argmin": _extreme("<"),
    "max_pool": max_pool,
    "max_pool_backward": max_pool_backward,
}
