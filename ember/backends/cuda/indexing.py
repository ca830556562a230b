"""Kernels of GPUs that move elements by index: picking, placing, adding up.

Arrays are made contiguous first. An index out of range is counted in a word of the GPU's memory,
which is looked at when something is read back: then it is an error, as a failed assertion on the
device is in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ember.backends.cuda.prelude import C_TYPES, PRELUDE, RAW
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import LibraryCall
from ember.layout import contiguous_strides

Runner = Callable[..., Any]
THREADS = 256
ADDABLE = {"float32": "float", "float64": "double", "int32": "int", "int64": "u64"}
HALVES = ("float16", "bfloat16")

RANGE = """
__device__ __forceinline__ i64 within(i64 i, i64 size, bool negative, int* bad) {
  if (negative && i < 0) i += size;
  if (i < 0 || i >= size) { atomicExch(bad, 1); return 0; }
  return i;
}
"""


def source(parameters: str, body: str, element: str, count: str = "count") -> str:
    """A kernel over range(count), a thread an index i."""
    return (
        f"{PRELUDE}{RANGE}typedef {element} E;\n"
        f'extern "C" __global__ void kernel({parameters}) {{\n'
        f"  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < {count};\n"
        f"       i += gridDim.x * (i64)blockDim.x) {{\n{body}  }}\n}}\n"
    )


def dense(kernels: Any, array: Array) -> Array:
    """The array, or a contiguous copy of it."""
    spec = array.spec
    if spec.contiguous:
        return array
    made: Array = kernels.empty(
        spec_of(spec.shape, contiguous_strides(spec.shape), spec.dtype, spec.device)
    )
    kernels.copy(made, array)
    return made


def spread_to(kernels: Any, array: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """A contiguous copy broadcast to a shape, as a dtype if one is given."""
    spec = array.spec
    made: Array = kernels.empty(
        spec_of(shape, contiguous_strides(shape), dtype or spec.dtype, spec.device)
    )
    kernels.copy(made, array)
    return made


class Launcher:
    """One kernel of this module for one set of sizes."""

    def __init__(self, kernels: Any, text: str, kinds: str):
        self.kernels, self.text, self.kinds = kernels, text, list(kinds)

    def __call__(self, count: int, *arguments: Any) -> None:
        function = self.kernels.texts.get(self.text)
        if function is None:
            function = self.kernels.driver.compile(self.kernels.index, self.text)
            self.kernels.texts[self.text] = function.prepare(self.kinds)
        blocks = max(1, min(-(-count // THREADS), self.kernels.processors * 16))
        function.launch((blocks, 1), THREADS, [*arguments, count])


def around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """(outer, size, inner) around a dim."""
    if not shape:
        return 1, 1, 1
    dim %= len(shape)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def _picking(kernels: Any, out: Spec, body: str, element: str) -> Runner:
    """The runner of an op that picks elements of x by an index: `body` is the kernel's."""
    text = source("E* out, const E* x, const i64* index, int* bad, i64 count", body, element)
    launch = Launcher(kernels, text, "ppppq")

    def run(x: Array, dim: int, index: Array) -> Array:
        made: Array = kernels.empty(out)
        if out.numel:
            x, index = dense(kernels, x), dense(kernels, index)
            launch(
                out.numel,
                kernels.address(made),
                kernels.address(x),
                kernels.address(index),
                kernels.flag(),
            )
        return made

    return run


def index_select(kernels: Any, call: LibraryCall) -> Runner | None:
    """Slices along a dim."""
    spec, dim, index = call.in_specs[0], call.in_specs[1], call.in_specs[2]
    if index.dtype.name != "int64":
        return None
    out, raw = call.out_specs[0], C_TYPES[RAW[spec.dtype.itemsize]]
    _, size, inner = around(spec.shape, dim)
    picked = max(index.numel, 1) if index.ndim == 0 else index.numel
    body = f"""    const i64 c = i % {inner}, j = i / {inner} % {picked};
    const i64 o = i / ({inner}LL * {picked});
    out[i] = x[(o * {size} + within(index[j], {size}, false, bad)) * {inner} + c];
"""
    return _picking(kernels, out, body, raw)


def adding_type(kernels: Any, dtype: Any) -> tuple[str, Any] | None:
    """The C type in which atomic sums of a dtype are made, and its dtype; None if there is none."""
    if dtype.name in HALVES:
        return "float", dtype.by_name["float32"]
    found = ADDABLE.get(dtype.name)
    return None if found is None else (found, dtype)


def _in_place_of(
    kernels: Any, x: Array, wide: Any, out: Spec, add: Callable[[Array], None]
) -> Array:
    """A copy of x, in the dtype of the sums, after `add`; in its own dtype."""
    held = spread_to(kernels, x, x.spec.shape, wide)
    add(held)
    if wide is x.spec.dtype:
        return held
    made: Array = kernels.empty(out)
    kernels.copy(made, held)
    return made


def index_add(kernels: Any, call: LibraryCall) -> Runner | None:
    """Slices added at an index."""
    spec, dim, index, source_spec = call.in_specs[:4]
    adding = adding_type(kernels, spec.dtype)
    if adding is None or index.dtype.name != "int64" or call.in_specs[4] not in (1, 1.0):
        return None
    kind, wide = adding
    out = call.out_specs[0]
    _, size, inner = around(spec.shape, dim)
    picked = around(source_spec.shape, dim)[1] if source_spec.ndim else 1
    body = f"""    const i64 c = i % {inner}, j = i / {inner} % {picked};
    const i64 o = i / ({inner}LL * {picked});
    atomicAdd(out + (o * {size} + within(index[j], {size}, false, bad)) * {inner} + c, x[i]);
"""
    text = source("E* out, const E* x, const i64* index, int* bad, i64 count", body, kind)
    launch = Launcher(kernels, text, "ppppq")

    def run(x: Array, dim: int, index: Array, values: Array, alpha: Any = 1) -> Array:
        def add(held: Array) -> None:
            if not values.spec.numel:
                return
            given = spread_to(kernels, values, values.spec.shape, wide)
            where = dense(kernels, index)
            launch(
                given.spec.numel,
                kernels.address(held),
                kernels.address(given),
                kernels.address(where),
                kernels.flag(),
            )

        return _in_place_of(kernels, x, wide, out, add)

    return run


def _walk(index: Spec, target: Spec, dim: int) -> str:
    """Lines for the place in `target` (contiguous) that element i of an index names along a dim."""
    strides = contiguous_strides(target.shape)
    lines = ["    i64 rest = i, at = 0;\n"]
    for d in reversed(range(index.ndim)):
        lines.append(
            f"    {{ const i64 q = rest / {max(index.shape[d], 1)}, r = rest - q * "
            f"{index.shape[d]}; rest = q;"
        )
        lines.append("" if d == dim else f" at += r * {strides[d]};")
        lines.append(" }\n")
    size, stride = (target.shape[dim], strides[dim]) if target.ndim else (1, 1)
    lines.append(f"    at += within(index[i], {size}, false, bad) * {stride};\n")
    return "".join(lines)


def gather(kernels: Any, call: LibraryCall) -> Runner | None:
    """Elements along a dim."""
    spec, dim, index = call.in_specs[:3]
    out, raw = call.out_specs[0], C_TYPES[RAW[spec.dtype.itemsize]]
    if index.dtype.name != "int64":
        return None
    body = _walk(index, spec, dim % max(spec.ndim, 1)) + "    out[i] = x[at];\n"
    return _picking(kernels, out, body, raw)


def scatter(kernels: Any, call: LibraryCall) -> Runner | None:
    """Elements placed, or added, along a dim."""
    spec, dim, index, values = call.in_specs[:4]
    reduce, include = call.in_specs[4], call.in_specs[5]
    sums = reduce in ("add", "sum")
    adding = adding_type(kernels, spec.dtype) if sums else ("", spec.dtype)
    if adding is None or (reduce is not None and not (sums and include)):
        return None
    if index.dtype.name != "int64" or not isinstance(values, Spec):
        return None
    out = call.out_specs[0]
    kind, wide = adding
    steps = _walk(index, spec, dim % max(spec.ndim, 1))
    steps += "    atomicAdd(out + at, x[i]);\n" if sums else "    out[at] = x[i];\n"
    element = kind or C_TYPES[RAW[spec.dtype.itemsize]]
    text = source("E* out, const E* x, const i64* index, int* bad, i64 count", steps, element)
    launch = Launcher(kernels, text, "ppppq")
    shape = index.shape

    def run(x: Array, dim: int, index: Array, src: Array, *how: Any) -> Array:
        def put(held: Array) -> None:
            if not index.spec.numel:
                return
            part = Array(
                src.storage,
                spec_of(shape, src.spec.strides, src.spec.dtype, src.spec.device),
                src.offset,
            )
            given = spread_to(kernels, part, shape, wide)
            where = dense(kernels, index)
            launch(
                index.spec.numel,
                kernels.address(held),
                kernels.address(given),
                kernels.address(where),
                kernels.flag(),
            )

        return _in_place_of(kernels, x, wide, out, put)

    return run


def _key(spec: Spec, indices: Any) -> tuple[list[int], tuple[int, ...], list[int], int] | None:
    """(indexed dims, their common shape, the other dims, how many of those come before); None for
    masks."""
    dims = [d for d, entry in enumerate(indices) if isinstance(entry, Spec)]
    arrays = [indices[d] for d in dims]
    if not dims or any(a.dtype.name != "int64" for a in arrays) or len(indices) > spec.ndim:
        return None
    length = max(a.ndim for a in arrays)
    common = [1] * length
    for a in arrays:
        for place, size in enumerate((1,) * (length - a.ndim) + a.shape):
            if size != 1:
                if common[place] not in (1, size):
                    return None  # the host's kernel has the words for it
                common[place] = size
    rest = [d for d in range(spec.ndim) if d not in dims]
    together = dims[-1] - dims[0] == len(dims) - 1
    return dims, tuple(common), rest, dims[0] if together else 0


def _places(spec: Spec, key: tuple[list[int], tuple[int, ...], list[int], int]) -> tuple[str, str]:
    """Lines for the place in x of element i of the result, and the parameters of the indices."""
    dims, common, rest, before = key
    strides = contiguous_strides(spec.shape)
    lines = ["    i64 rest = i, at = 0;\n"]
    for d in reversed(rest[before:]):
        lines.append(f"    at += rest % {spec.shape[d]} * {strides[d]}; rest /= {spec.shape[d]};\n")
    count = math.prod(common)
    lines.append(f"    const i64 b = rest % {max(count, 1)}; rest /= {max(count, 1)};\n")
    for d in reversed(rest[:before]):
        lines.append(f"    at += rest % {spec.shape[d]} * {strides[d]}; rest /= {spec.shape[d]};\n")
    for k, d in enumerate(dims):
        lines.append(f"    at += within(index{k}[b], {spec.shape[d]}, true, bad) * {strides[d]};\n")
    return "".join(lines), ", ".join(f"const i64* index{k}" for k in range(len(dims)))


def index(kernels: Any, call: LibraryCall) -> Runner | None:
    """x[indices] of integer indices."""
    spec, indices = call.in_specs[0], call.in_specs[1]
    key = _key(spec, indices)
    if key is None or 0 in spec.shape:
        return None
    dims, common, rest, before = key
    shape = [spec.shape[d] for d in rest]
    shape[before:before] = common
    out = spec_of(tuple(shape), contiguous_strides(tuple(shape)), spec.dtype, spec.device)
    body, parameters = _places(spec, key)
    raw = C_TYPES[RAW[spec.dtype.itemsize]]
    text = source(
        f"E* out, const E* x, int* bad, {parameters}, i64 count",
        body + "    out[i] = x[at];\n",
        raw,
    )
    launch = Launcher(kernels, text, "ppp" + "p" * len(dims) + "q")

    def run(x: Array, indices: Any) -> Array:
        made: Array = kernels.empty(out)
        if out.numel:
            x = dense(kernels, x)
            given = [spread_to(kernels, indices[d], common) for d in dims]
            launch(
                out.numel,
                kernels.address(made),
                kernels.address(x),
                kernels.flag(),
                *(kernels.address(g) for g in given),
            )
        return made

    return run


def index_put(kernels: Any, call: LibraryCall) -> Runner | None:
    """A copy with values at integer indices, or added there."""
    spec, indices = call.in_specs[0], call.in_specs[1]
    accumulate = bool(call.in_specs[3])
    key = _key(spec, indices)
    adding = adding_type(kernels, spec.dtype) if accumulate else ("", spec.dtype)
    if key is None or adding is None or 0 in spec.shape:
        return None
    kind, wide = adding
    dims, common, rest, before = key
    sizes = [spec.shape[d] for d in rest]
    sizes[before:before] = common
    shape = tuple(sizes)
    values = call.in_specs[2]
    fits = all(a in (1, b) for a, b in zip(reversed(values.shape), reversed(shape), strict=False))
    if values.ndim > len(shape) or not fits:
        return None
    body, parameters = _places(spec, key)
    body += "    atomicAdd(out + at, x[i]);\n" if accumulate else "    out[at] = x[i];\n"
    text = source(
        f"E* out, const E* x, int* bad, {parameters}, i64 count",
        body,
        kind or C_TYPES[RAW[spec.dtype.itemsize]],
    )
    launch = Launcher(kernels, text, "ppp" + "p" * len(dims) + "q")
    count = math.prod(shape)

    def run(x: Array, indices: Any, values: Array, *how: Any) -> Array:
        def put(held: Array) -> None:
            if count:
                given = spread_to(kernels, values, shape, wide)
                where = [spread_to(kernels, indices[d], common) for d in dims]
                launch(
                    count,
                    kernels.address(held),
                    kernels.address(given),
                    kernels.flag(),
                    *(kernels.address(w) for w in where),
                )

        return _in_place_of(kernels, x, wide, call.out_specs[0], put)

    return run


def concatenate(kernels: Any, call: LibraryCall) -> Runner | None:
    """Arrays copied one after another into the result."""
    out, dim = call.out_specs[0], call.in_specs[1]
    dim %= max(out.ndim, 1)
    step = out.strides[dim] if out.ndim else 1

    def run(tensors: Any, dim_: int) -> Array:
        made: Array = kernels.empty(out)
        start = 0
        for tensor in tensors:
            if tensor.spec.shape == (0,) and out.ndim != 1:
                continue
            part = spec_of(tensor.spec.shape, out.strides, out.dtype, out.device)
            kernels.copy(Array(made.storage, part, start * step), tensor)
            start += tensor.spec.shape[dim]
        return made

    return run


MAKERS: dict[str, Callable[[Any, LibraryCall], Runner | None]] = {
    "index_select": index_select,
    "index_add": index_add,
    "gather": gather,
    "scatter": scatter,
    "index": index,
    "index_put": index_put,
    "concatenate": concatenate,
}
