"""Copies that turn matrices over: read along the source's rows, written along the target's, by way
of a tile in shared memory."""

from __future__ import annotations

from typing import Any

from ember.backends.cuda.prelude import C_TYPES, PRELUDE
from ember.kernel.array import Array, Spec
from ember.kernel.dims import Dim, collapsed

LEAST = 8  # elements of both sides from which it pays
THREADS = 256
PARAMETERS = (
    "E* out, const E* x, u64 n0, u64 n1, u64 n, u64 m, u64 x0, u64 x1, u64 xm, u64 o0, u64 o1, "
    "u64 on"
)


def text(element: str, tile: int) -> str:
    """The kernel for elements of a C type."""
    return f"""{PRELUDE}typedef {element} E;
extern "C" __global__ void kernel({PARAMETERS}) {{
  __shared__ E tile[{tile} * {tile + 1}];
  const u64 down = (n + {tile - 1}) / {tile}, right = (m + {tile - 1}) / {tile};
  for (u64 t = blockIdx.x; t < n0 * n1 * down * right; t += gridDim.x) {{
    const u64 above = t / right, batch = above / down, outer = batch / n1;
    const u64 i0 = above % down * {tile}, j0 = t % right * {tile};
    const E* from = x + outer * x0 + batch % n1 * x1;
    E* to = out + outer * o0 + batch % n1 * o1;
    #pragma unroll 4
    for (u32 k = threadIdx.x; k < {tile * tile}; k += blockDim.x) {{
      const u64 i = i0 + k % {tile}, j = j0 + k / {tile};
      if (i < n && j < m) tile[k / {tile} * {tile + 1} + k % {tile}] = from[j * xm + i];
    }}
    __syncthreads();
    #pragma unroll 4
    for (u32 k = threadIdx.x; k < {tile * tile}; k += blockDim.x) {{
      const u64 i = i0 + k / {tile}, j = j0 + k % {tile};
      if (i < n && j < m) to[i * on + j] = tile[k % {tile} * {tile + 1} + k / {tile}];
    }}
    __syncthreads();
  }}
}}
"""


def plan(kernels: Any, target: Spec, source: Spec, raw: str) -> Any:
    """A function that copies source to target, or None where neither side would be turned."""
    order = sorted(range(target.ndim), key=lambda d: -target.strides[d])
    every = [source.strides, target.strides]
    dims = collapsed(target.shape, order, set(), every)
    if not 2 <= len(dims) <= 4 or dims[-1].strides[1] != 1 or dims[-1].strides[0] == 1:
        return None
    fast = [i for i, d in enumerate(dims[:-1]) if d.strides[0] == 1]
    if not fast:
        return None
    side, last = dims[fast[0]], dims[-1]
    if min(side.size, last.size) < LEAST:
        return None
    outer = [d for i, d in enumerate(dims[:-1]) if i != fast[0]]
    outer = [Dim(1, [0, 0], False)] * (2 - len(outer)) + outer
    tile = 64 if target.dtype.itemsize <= 2 else 32
    geometry = [outer[0].size, outer[1].size, side.size, last.size]
    geometry += [outer[0].strides[0], outer[1].strides[0], last.strides[0]]
    geometry += [outer[0].strides[1], outer[1].strides[1], side.strides[1]]
    code = text(C_TYPES[raw], tile)
    tiles = outer[0].size * outer[1].size * -(-side.size // tile) * -(-last.size // tile)
    grid = min(tiles, kernels.processors * 32)

    found: list[Any] = []

    def run(made: Array, given: Array) -> None:
        if not found:
            function = kernels.texts.get(code)
            if function is None:
                function = kernels.driver.compile(kernels.index, code).prepare(["p"] * 12)
                kernels.texts[code] = function
            found.append(function.bound((grid, 1), THREADS, geometry))
        found[0]([kernels.address(made), kernels.address(given)])

    return run
