"""Batch normalization on a GPU of arrays whose channels lie last: forward reads twice and writes
once, backward reads both arrays twice and writes once.

All see a matrix of rows and channels. Sums over rows are made in parts, a block for some channels
and some rows, and finished by a second kernel, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.cuda.cudnn import laid
from ember.backends.cuda.indexing import dense
from ember.backends.cuda.prelude import C_TYPES, PRELUDE
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import LibraryCall

Runner = Callable[..., Any]
THREADS, LANES = 256, 32  # of a block; of them side by side
PARTS = 4  # blocks for each processor
APPLY = 8  # such of elementwise kernels
DTYPES = ("float32", "float16", "bfloat16")


def sums_text(element: str, wide: int, backward: bool) -> str:
    """Two sums for each channel and part of the rows: forward of x and its square, both counted
    from the first row's, backward of the gradient and the gradient times what x is above the
    mean."""
    given = "const E* g, " if backward else ""
    load = (
        f"      const Pack<E, {wide}> slope = *(const Pack<E, {wide}>*)(g + row * channels + c);\n"
    )
    start = "mean[c + lane]" if backward else "(float)widen(x[c + lane])"
    update = "const float s = (float)widen(slope.at[lane]);" if backward else "const float s = d;"
    return f"""{PRELUDE}typedef {element} E;
extern "C" __global__ __launch_bounds__({THREADS}) void kernel(float* parts, const E* x, {given}\
const float* mean, i64 rows, i64 each, i64 channels) {{
  enum {{ LANES = {LANES}, WIDE = {wide} }};
  __shared__ float shared[{THREADS} * WIDE * 2];
  const i64 lane_ = threadIdx.x % {LANES}, down = threadIdx.x / {LANES};
  const i64 first = blockIdx.y * each, last = first + each < rows ? first + each : rows;
  for (i64 c = (blockIdx.x * LANES + lane_) * WIDE; c - lane_ * WIDE < channels;
       c += gridDim.x * (i64)LANES * WIDE) {{
    float a[WIDE], b[WIDE], base[WIDE];
    const bool inside = c < channels;
    #pragma unroll
    for (int lane = 0; lane < WIDE; ++lane) {{
      a[lane] = b[lane] = 0.0f;
      base[lane] = inside ? {start} : 0.0f;
    }}
    if (inside) for (i64 row = first + down; row < last; row += blockDim.x / {LANES}) {{
      const Pack<E, {wide}> in = *(const Pack<E, {wide}>*)(x + row * channels + c);
{load if backward else ""}      #pragma unroll
      for (int lane = 0; lane < WIDE; ++lane) {{
        const float d = (float)widen(in.at[lane]) - base[lane];
        {update}
        a[lane] += s;
        b[lane] += s * d;
      }}
    }}
    __syncthreads();
    for (int lane = 0; lane < WIDE; ++lane) {{
      shared[(threadIdx.x * WIDE + lane) * 2] = a[lane];
      shared[(threadIdx.x * WIDE + lane) * 2 + 1] = b[lane];
    }}
    __syncthreads();
    if (down == 0 && inside) for (int lane = 0; lane < WIDE; ++lane) {{
      float s = 0.0f, t = 0.0f;
      for (i64 k = 0; k < blockDim.x / {LANES}; ++k) {{
        s += shared[((k * LANES + lane_) * WIDE + lane) * 2];
        t += shared[((k * LANES + lane_) * WIDE + lane) * 2 + 1];
      }}
      parts[(blockIdx.y * 2) * channels + c + lane] = s;
      parts[(blockIdx.y * 2 + 1) * channels + c + lane] = t;
    }}
  }}
}}
"""


def finish_text(element: str, backward: bool) -> str:
    """A warp a channel adds the parts: forward mean and variance, backward the two sums."""
    end = (
        "first[c] = a; second[c] = b;"
        if backward
        else "const float m = a / rows; first[c] = (float)widen(x[c]) + m; "
        "second[c] = b / rows - m * m > 0.0f ? b / rows - m * m : 0.0f;"
    )
    return f"""{PRELUDE}typedef {element} E;
extern "C" __global__ void kernel(float* first, float* second, const float* parts, const E* x, \
i64 count, i64 rows, i64 channels) {{
  enum {{ LANES = {LANES} }};
  for (i64 c = blockIdx.x * (i64)(blockDim.x / 32) + threadIdx.x / 32; c < channels;
       c += gridDim.x * (i64)(blockDim.x / 32)) {{
    float sum_a = 0.0f, sum_b = 0.0f;
    for (i64 k = threadIdx.x % 32; k < count; k += LANES) {{
      sum_a += parts[2 * k * channels + c];
      sum_b += parts[(2 * k + 1) * channels + c];
    }}
    const float a = combined<Add, 32>(sum_a, 0.0f, (float*)0);
    const float b = combined<Add, 32>(sum_b, 0.0f, (float*)0);
    if (threadIdx.x % 32) continue;
    {end}
  }}
}}
"""


def apply_text(element: str, wide: int, backward: bool) -> str:
    """The result, or the gradient by x, of each element."""
    given = "const E* g, " if backward else ""
    sums = ", const float* first, const float* second" if backward else ""
    load = f"    const Pack<E, {wide}> slope = *(const Pack<E, {wide}>*)(g + i);\n"
    value = (
        "factor * ((float)widen(slope.at[lane]) - (first[k] + d * r * r * second[k]) * share)"
        if backward
        else "d * factor + (bias ? bias[k] : 0.0f)"
    )
    return f"""{PRELUDE}typedef {element} E;
extern "C" __global__ __launch_bounds__({THREADS}) void kernel(E* out, const E* x, {given}\
const float* mean, const float* var, const float* weight, const float* bias{sums}, double eps, \
i64 rows, u32 channels) {{
  const float share = 1.0f / rows;
  const u64 n = rows * (u64)channels, stride = gridDim.x * (u64)blockDim.x * {wide};
  for (u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) * {wide}; i < n; i += stride) {{
    const u32 c = (u32)(i % channels);
    const Pack<E, {wide}> in = *(const Pack<E, {wide}>*)(x + i);
{load if backward else ""}    Pack<E, {wide}> made;
    #pragma unroll
    for (int lane = 0; lane < {wide}; ++lane) {{
      const u32 k = c + lane;
      const float r = rsqrtf(var[k] + (float)eps), d = (float)widen(in.at[lane]) - mean[k];
      const float factor = weight ? weight[k] * r : r;
      made.at[lane] = Cast<E>::of({value});
    }}
    *(Pack<E, {wide}>*)(out + i) = made;
  }}
}}
"""


def _run(kernels: Any, text: str, kinds: str, grid: tuple[int, int], values: list[Any]) -> None:
    function = kernels.texts.get(text)
    if function is None:
        function = kernels.driver.compile(kernels.index, text).prepare(list(kinds))
        kernels.texts[text] = function
    function.launch(grid, THREADS, values)


class Matrix:
    """Arrays of some shape with channels last, as rows and channels."""

    def __init__(self, kernels: Any, spec: Spec):
        self.kernels, self.spec = kernels, spec
        self.channels = spec.shape[1]
        self.rows = spec.numel // self.channels
        self.element = C_TYPES[spec.dtype.name]

    def wide(self, *places: int) -> int:
        """How many elements are read at once."""
        wide = 16 // self.spec.dtype.itemsize
        odd = self.channels % wide or any(p % 16 for p in places)
        return 1 if odd else wide

    def sums(self, first: Array, second: Array, arrays: list[Array], mean: int) -> None:
        """Fill two vectors with the sums (or with what they are finished to)."""
        kernels, place = self.kernels, self.kernels.address
        places = [place(a) for a in arrays]
        wide, backward = self.wide(*places), len(arrays) > 1
        across = -(-self.channels // (LANES * wide))
        parts = max(1, min(kernels.processors * PARTS // across, self.rows // 64, 65535))
        each = -(-self.rows // parts)
        held = kernels.empty(
            spec_of((parts, 2, self.channels), (2 * self.channels, self.channels, 1),
                    first.spec.dtype, self.spec.device)
        )  # fmt: skip
        text = sums_text(self.element, wide, backward)
        numbers = [mean, self.rows, each, self.channels]
        kinds = "p" * (len(arrays) + 2) + "qqq"
        _run(kernels, text, kinds, (across, parts), [place(held), *places, *numbers])
        text = finish_text(self.element, backward)
        values = [place(first), place(second), place(held), places[0], parts, self.rows]
        blocks = -(-self.channels // (THREADS // LANES))
        _run(kernels, text, "ppppqqq", (blocks, 1), [*values, self.channels])

    def apply(self, out: Array, arrays: list[Array], vectors: list[Any], eps: float) -> None:
        """Fill the result from matrices and vectors, each of which may be absent."""
        place = self.kernels.address
        places = [place(a) for a in (out, *arrays)]
        wide = self.wide(*places)
        text = apply_text(self.element, wide, len(arrays) > 1)
        given = [0 if v is None else place(v) for v in vectors]
        kinds = "p" * (len(places) + len(given)) + "dqi"
        blocks = -(-self.spec.numel // (THREADS * wide))
        grid = max(1, min(blocks, self.kernels.processors * APPLY * 64))
        values = [*places, *given, eps, self.rows, self.channels]
        _run(self.kernels, text, kinds, (grid, 1), values)


def _single(kernels: Any, vector: Array | None) -> Array | None:
    """A vector in single precision."""
    if vector is None:
        return None
    spec = vector.spec
    if spec.dtype.name == "float32":
        return dense(kernels, vector)
    wide = spec.dtype.by_name["float32"]
    made: Array = kernels.empty(spec.with_shape(spec.shape).with_dtype(wide))
    kernels.copy(made, vector)
    return made


def forward(kernels: Any, call: LibraryCall) -> Runner | None:
    """The result, and the mean and variance of each channel."""
    spec = call.in_specs[0]
    if spec.dtype.name not in DTYPES:
        return None
    out, mean, var = call.out_specs
    matrix = Matrix(kernels, spec)

    def run(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Any:
        x = laid(kernels, x)
        results = [kernels.empty(s) for s in (out, mean, var)]
        matrix.sums(results[1], results[2], [x], 0)
        vectors = [results[1], results[2], _single(kernels, weight), _single(kernels, bias)]
        matrix.apply(results[0], [x], vectors, eps)
        return tuple(results)

    return run


def backward(kernels: Any, call: LibraryCall) -> Runner | None:
    """The gradient by x, and two sums for each channel: of the gradient, and of it times what x is
    above the mean."""
    spec = call.in_specs[1]
    if spec.dtype.name not in DTYPES:
        return None
    matrix = Matrix(kernels, spec)

    def run(g: Array, x: Array, weight: Array | None, mean: Array, var: Array, eps: float) -> Any:
        g, x = laid(kernels, g), laid(kernels, x)
        results = [kernels.empty(s) for s in call.out_specs]
        mean, var = dense(kernels, mean), dense(kernels, var)
        matrix.sums(results[1], results[2], [x, g], kernels.address(mean))
        vectors = [mean, var, _single(kernels, weight), None, *results[1:]]
        matrix.apply(results[0], [x, g], vectors, eps)
        return tuple(results)

    return run


MAKERS = {"batch_norm": forward, "batch_norm_backward": backward}
