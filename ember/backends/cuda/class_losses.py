"""Cross-entropy of scores against classes on a GPU: the scores are read once forward, and once
backward while their gradient is written. Nothing else of their size exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.cuda.indexing import RANGE, dense, spread_to
from ember.backends.cuda.prelude import C_TYPES, PRELUDE
from ember.kernel.array import Array, spec_of
from ember.kernel.call import LibraryCall

Runner = Callable[..., Any]
THREADS = 512  # of a row
TOTALS = 1024
DTYPES = ("float32", "float16", "bfloat16")


def _walk(wide: int, load: str, body: str, store: str = "") -> str:
    """A loop of a row's threads over its elements e, `wide` of them at once."""
    return f"""    for (u32 e = threadIdx.x * {wide}; e < classes; e += blockDim.x * {wide}) {{
      const Pack<E, {wide}> in = *(const Pack<E, {wide}>*)({load} + e);
{body}{store}    }}
"""


def _row(parameters: str, element: str, body: str) -> str:
    """A kernel of a block a row: its scores x, its class t, whether it counts."""
    return f"""{PRELUDE}{RANGE}typedef {element} E;
extern "C" __global__ __launch_bounds__({THREADS}) void kernel({parameters}) {{
  __shared__ float shared[32];
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {{
    const i64 given = target[row];
    const bool counts = given != ignored;
    const i64 t = counts ? within(given, classes, false, bad) : 0;
    const E* x = scores + row * classes;
{body}  }}
}}
"""


def forward_text(element: str, wide: int) -> str:
    """Losses (rows), greatest scores and logs of sums (2, rows)."""
    greatest = f"""      float top_ = m;
      #pragma unroll
      for (int lane = 0; lane < {wide}; ++lane) top_ = max_nan(top_, (float)widen(in.at[lane]));
      const float base_ = top_ == -(float)INF ? 0.0f : top_;
      s *= m == -(float)INF ? 0.0f : exp(m - base_);
      #pragma unroll
      for (int lane = 0; lane < {wide}; ++lane) s += exp((float)widen(in.at[lane]) - base_);
      m = top_;
"""
    body = f"""    float m = -(float)INF, s = 0.0f;
{_walk(wide, "x", greatest)}    const float top = combined<Max, {THREADS}>(m, -(float)INF, shared);
    const float base = top == -(float)INF ? 0.0f : top;
    s *= m == -(float)INF ? 0.0f : exp(m - base);
    const float sum = combined<Add, {THREADS}>(s, 0.0f, shared);
    if (threadIdx.x == 0) {{
      kept[row] = top;
      kept[rows + row] = log(sum);
      losses[row] = counts ? top - (float)widen(x[t]) + log(sum) : 0.0f;
    }}
"""
    parameters = (
        "float* losses, float* kept, const E* scores, const i64* target, int* bad, i64 ignored, "
        "u32 classes, i64 rows"
    )
    return _row(parameters, element, body)


def backward_text(element: str, wide: int, each: bool) -> str:
    """The gradient by the scores: `each` where every row has a gradient of its own."""
    value = f"""      Pack<E, {wide}> out;
      #pragma unroll
      for (int lane = 0; lane < {wide}; ++lane) {{
        const float p = exp(((float)widen(in.at[lane]) - top) - sum);
        out.at[lane] = Cast<E>::of(p * scale);
      }}
"""
    kind = f"Pack<E, {wide}>" if wide == 1 else "ulonglong2"  # 16 bytes as one
    store = f"""      *({kind}*)(made + row * classes + e) = *(const {kind}*)&out;
      if ((u32)t - e < {wide}u) {{  // this thread has the class itself
        const float p = exp(((float)widen(x[t]) - top) - sum);
        made[row * classes + t] = Cast<E>::of((p - 1.0f) * scale);
      }}
"""
    body = f"""    const float top = kept[row], sum = kept[rows + row];
    const float scale = counts ? g[{"row" if each else "0"}] / (mean ? total[0] : 1.0f) : 0.0f;
    if (scale == 0.0f) {{
      for (u32 e = threadIdx.x; e < classes; e += blockDim.x)
        made[row * classes + e] = Cast<E>::of(0.0f);
      continue;
    }}
{_walk(wide, "x", value, store)}"""
    parameters = (
        "E* made, const float* g, const E* scores, const i64* target, const float* kept, "
        "const float* total, int* bad, i64 ignored, i64 mean, u32 classes, i64 rows"
    )
    return _row(parameters, element, body)


_TOTAL_OF = (
    "float* result, float* total, const float* losses, const i64* target, i64 ignored, i64 mean, "
    "i64 rows"
)
TOTAL = f"""{PRELUDE}
extern "C" __global__ void kernel({_TOTAL_OF}) {{
  __shared__ float shared[32];
  __shared__ double shared_double[32];
  double s = 0;
  float n = 0.0f;
  for (i64 row = threadIdx.x; row < rows; row += blockDim.x) {{
    s += losses[row];
    n += target[row] != ignored;
  }}
  const double sum = combined<Add, {TOTALS}>(s, 0.0, shared_double);
  const float count = combined<Add, {TOTALS}>(n, 0.0f, shared);
  if (threadIdx.x == 0) {{
    total[0] = count;
    if (result) result[0] = (float)(mean ? sum / count : sum);
  }}
}}
"""


def _run(kernels: Any, text: str, kinds: str, grid: int, threads: int, values: list[Any]) -> None:
    function = kernels.texts.get(text)
    if function is None:
        function = kernels.driver.compile(kernels.index, text).prepare(list(kinds))
        kernels.texts[text] = function
    function.launch((grid, 1), threads, values)


def _wide(size: int, itemsize: int, classes: int, address: int) -> int:
    """How many elements are read at once."""
    wide = size // itemsize
    return wide if not classes % wide and not address % size else 1


def _is_fit(call: LibraryCall, scores: int) -> bool:
    """Whether a call is one of these kernels': classes without weights and smoothing."""
    first, weight, smoothing = (call.in_specs[i] for i in (scores, scores + 2, -2))
    whole = first.ndim == 2 and 0 < first.numel and first.shape[1] < 1 << 31
    return first.dtype.name in DTYPES and whole and weight is None and smoothing == 0


def _targets(kernels: Any, target: Array) -> Array:
    if target.spec.dtype.name == "int64":
        return dense(kernels, target)
    wide = target.spec.dtype.by_name["int64"]
    return spread_to(kernels, target, target.spec.shape, wide)


def cross_entropy(kernels: Any, call: LibraryCall) -> Runner | None:
    """The loss; what is kept of each row; how many rows count."""
    if not _is_fit(call, 0):
        return None
    spec = call.in_specs[0]
    result, kept, total = call.out_specs
    rows, classes = spec.shape
    losses = spec_of((rows,), (1,), kept.dtype, spec.device)
    element, itemsize = C_TYPES[spec.dtype.name], spec.dtype.itemsize
    grid = min(rows, (1 << 31) - 1)

    def run(
        scores: Array, target: Array, weight: None, ignored: int, smoothing: float, reduction: str
    ) -> Any:
        scores, target = dense(kernels, scores), _targets(kernels, target)
        made = [kernels.empty(s) for s in (result, kept, total)]
        held = made[0] if reduction == "none" else kernels.empty(losses)
        place, address = kernels.address, kernels.address(scores)
        text = forward_text(element, _wide(16, itemsize, classes, address))
        where = [place(held), place(made[1]), address, place(target), kernels.flag()]
        _run(kernels, text, "pppppqiq", grid, THREADS, [*where, ignored, classes, rows])
        where = [0 if reduction == "none" else place(made[0]), place(made[2]), place(held)]
        numbers = [ignored, int(reduction == "mean"), rows]
        _run(kernels, TOTAL, "ppppqqq", 1, TOTALS, [*where, place(target), *numbers])
        return tuple(made)

    return run


def cross_entropy_backward(kernels: Any, call: LibraryCall) -> Runner | None:
    """The gradient by the scores."""
    if not _is_fit(call, 1):
        return None
    spec, out = call.in_specs[1], call.out_specs[0]
    rows, classes = spec.shape
    element, itemsize = C_TYPES[spec.dtype.name], spec.dtype.itemsize
    grid = min(rows, (1 << 31) - 1)

    def run(
        g: Array, scores: Array, target: Array, weight: None, kept: Array, total: Array,
        ignored: int, smoothing: float, reduction: str,
    ) -> Array:  # fmt: skip
        scores, target = dense(kernels, scores), _targets(kernels, target)
        g, kept, total = dense(kernels, g), dense(kernels, kept), dense(kernels, total)
        made: Array = kernels.empty(out)
        place = kernels.address
        wide = _wide(16, itemsize, classes, place(scores) | place(made))
        text = backward_text(element, wide, reduction == "none")
        arrays = [place(a) for a in (made, g, scores, target, kept, total)]
        numbers = [ignored, int(reduction == "mean"), classes, rows]
        values = [*arrays, kernels.flag(), *numbers]
        _run(kernels, text, "pppppppqqiq", grid, THREADS, values)
        return made

    return run


MAKERS = {"cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward}
