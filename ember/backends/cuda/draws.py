"""Random numbers drawn on a GPU: the same as `backends/cpu/philox.py` draws on the host.

A thread makes one block of four words, which is four elements of 32 random bits or two of 64. The
numbers agree bit for bit; in float64, and where logarithms and tangents are taken, to the last bit
or two. In a CUDA graph seed and offset are read from the GPU's memory, where they are put before
each launch, so that each one draws new numbers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from ember.backends.cpu import box_muller
from ember.backends.cpu.philox import Philox
from ember.backends.cpu.random_fills import DIGITS, WIDE_RANGE
from ember.backends.cuda.indexing import dense, spread_to
from ember.backends.cuda.prelude import C_TYPES, PRELUDE
from ember.kernel.array import Array, spec_of
from ember.layout import contiguous_strides

THREADS = 256
ALL_64 = (1 << 64) - 1
PARTS = {"complex64": "float32", "complex128": "float64"}
SINGLE, DOUBLE = "uniform normal bernoulli_each", "exponential geometric log_normal cauchy"


def _horner(name: str, coefficients: tuple[float, ...], variable: str) -> str:
    steps = [f"  float {name} = {coefficients[0]!r}f;\n"]
    steps += [f"  {name} = __fmaf_rn({name}, {variable}, {c!r}f);\n" for c in coefficients[1:]]
    return "".join(steps)


_LOW, _HIGH = float(box_muller.LN2_LOW), float(box_muller.LN2_HIGH)
_PI = [float(p) for p in box_muller.QUARTER_PI]
WORDS = f"""
struct Words {{ u32 at[4]; }};
__device__ __forceinline__ Words words_of(u64 seed, u64 step, u64 block) {{
  u32 a = (u32)step, b = (u32)(step >> 32), c = (u32)block, d = (u32)(block >> 32);
  u32 k = (u32)seed, l = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {{
    const u64 first = (u64)a * 0xD2511F53u, second = (u64)c * 0xCD9E8D57u;
    a = (u32)(second >> 32) ^ b ^ k;
    b = (u32)second;
    c = (u32)(first >> 32) ^ d ^ l;
    d = (u32)first;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }}
  return Words{{{{a, b, c, d}}}};
}}
__device__ __forceinline__ u64 wide_of(const Words& w, int lane) {{
  return (u64)w.at[2 * lane] << 32 | w.at[2 * lane + 1];
}}
__device__ __forceinline__ double unit(u64 bits) {{
  return (double)(i64)(bits & 0x1FFFFFFFFFFFFFull) * 1.1102230246251565e-16;
}}
// sqrt(-2 log u), sin and cos as box_muller.py has them
__device__ __forceinline__ float radius_of(float u) {{
  const int bits = (int)__float_as_uint(u), exponent = (bits - {box_muller.SQRT_HALF_BITS}) >> 23;
  const float x = __fadd_rn(__uint_as_float((u32)(bits - (exponent << 23))), -1.0f);
  const float power = (float)exponent;
{_horner("y", box_muller.LOG, "x")}  y = __fmul_rn(y, x);
  const float square = __fmul_rn(x, x);
  y = __fmaf_rn(y, square, __fmul_rn(power, {_LOW!r}f));
  y = __fadd_rn(y, -__fmul_rn(square, 0.5f));
  const float log = __fadd_rn(__fadd_rn(x, y), __fmul_rn(power, {_HIGH!r}f));
  return __fsqrt_rn(__fmul_rn(log, -2.0f));
}}
__device__ __forceinline__ void circle_of(float angle, float& c, float& s) {{
  const int octant = ((int)__fmul_rn(angle, {float(box_muller._single(4 / math.pi))!r}f) + 1) & -2;
  const float turns = (float)octant;
  float x = __fadd_rn(angle, -__fmul_rn(turns, {_PI[0]!r}f));
  x = __fadd_rn(x, -__fmul_rn(turns, {_PI[1]!r}f));
  x = __fadd_rn(x, -__fmul_rn(turns, {_PI[2]!r}f));
  const float square = __fmul_rn(x, x);
{_horner("cosine", box_muller.COSINE, "square")}  cosine = __fmul_rn(cosine, square);
  cosine = __fmaf_rn(cosine, square, __fmul_rn(square, -0.5f));
  cosine = __fadd_rn(cosine, 1.0f);
{_horner("sine", box_muller.SINE, "square")}  sine = __fmul_rn(sine, square);
  sine = __fmaf_rn(sine, x, x);
  c = octant & 2 ? sine : cosine;
  s = octant & 2 ? cosine : sine;
  if ((octant + 2) & 4) c = -c;
  if (octant & 4) s = -s;
}}
__device__ __forceinline__ void normals_of(const Words& w, float n[4]) {{
  for (int pair = 0; pair < 2; ++pair) {{
    const float unit = 5.9604644775390625e-08f;
    const float u = __fmul_rn((float)(int)(w.at[2 * pair + 1] & 0xFFFFFFu), unit);
    const float v = __fmul_rn((float)(int)(w.at[2 * pair] & 0xFFFFFFu), unit);
    float c, s;
    circle_of(__fmul_rn(v, {float(box_muller.TWO_PI)!r}f), c, s);
    const float radius = radius_of(__fadd_rn(1.0f, -u));
    n[2 * pair] = __fmul_rn(c, radius);
    n[2 * pair + 1] = __fmul_rn(s, radius);
  }}
}}
"""
NORMAL_64 = """
    double z[2];
    {
      const double radius = sqrt(-2 * log(1 - unit(wide_of(w, 1))));
      const double angle = 6.283185307179586 * unit(wide_of(w, 0));
      z[0] = radius * cos(angle);
      z[1] = radius * sin(angle);
    }
"""
# for each distribution the value of lane `j`; p and q are its parameters
VALUES_32 = {
    "uniform": """
      const u32 whole = w.at[j] & 0xFFFFFFu;
      const float low = (float)p;
      const double step = (double)((float)q - low) * 5.9604644775390625e-08;
      E value = Cast<E>::of((float)((double)(int)whole * step + (double)low));
      if (widen(value) == widen(Cast<E>::of((float)q))) value = Cast<E>::of(low);
""",
    "normal": "      const E value = Cast<E>::of("
    "p == 0 && q == 1 ? z[j] : __fmaf_rn(z[j], (float)q, (float)p));\n",
    "bernoulli_each": """
      const float drawn = (float)(int)(w.at[j] & 0xFFFFFFu) * 5.9604644775390625e-08f;
      const float wanted = (float)widen(each[i]);
      if (!(wanted >= 0 && wanted <= 1)) atomicExch(bad, 2);
      const E value = Cast<E>::of(drawn < wanted);
""",
    "integers": """
      const u32 bits = w.at[j];
      const E value = Cast<E>::of((i64)(span ? bits % (u32)span : bits) + low);
""",
}
VALUES_64 = {
    "uniform": """
      const double drawn = unit(wide_of(w, j));
      E value = p == 0 && q == 1 ? drawn : fma(drawn, q - p, p);
      if (!(p == 0 && q == 1) && value == q) value = p;
""",
    "normal": "      const E value = p == 0 && q == 1 ? z[j] + 0.0 : fma(z[j], q, p);\n",
    "log_normal": "      const E value = Cast<E>::of("
    "exp(p == 0 && q == 1 ? z[j] + 0.0 : fma(z[j], q, p)));\n",
    "bernoulli": """
      const u64 bits = wide_of(w, j) & 0x1FFFFFFFFFFFFFull;
      const E value = Cast<E>::of(bits < span);
""",
    "bernoulli_each": """
      const double wanted = (double)widen(each[i]);
      if (!(wanted >= 0 && wanted <= 1)) atomicExch(bad, 2);
      const E value = Cast<E>::of(unit(wide_of(w, j)) < wanted);
""",
    "exponential": "      const double value_ = log1p(-unit(wide_of(w, j))) / -p + 0.0;\n"
    "      const E value = Cast<E>::of(value_);\n",
    "geometric": "      const double value_ = ceil(log(unit(wide_of(w, j))) / p);\n"
    "      const E value = STORED(value_);\n",
    "cauchy": "      const double value_ = tan(3.141592653589793 * (unit(wide_of(w, j)) - 0.5));\n"
    "      const E value = Cast<E>::of(p + q * value_);\n",
    "integers": """
      const u64 bits = wide_of(w, j);
      const E value = Cast<E>::of((i64)(span ? bits % span : bits) + low);
""",
}
KINDS = "pppppppdd"  # out, each, bad, state, seed, offset, span, p, q, then low and n
PARAMETERS = (
    "E* out, const P* each, int* bad, const u64* state, u64 seed, u64 offset, u64 span, double p, "
    "double q, i64 low, u64 n"
)


@cache
def text_of(distribution: str, element: str, given: str, wide: bool) -> str:
    """The kernel of a distribution, for elements and parameters of C types."""
    values = (VALUES_64 if wide else VALUES_32)[distribution]
    before = ""
    if distribution in ("normal", "log_normal"):
        before = NORMAL_64 if wide else "    float z[4];\n    normals_of(w, z);\n"
    each = 2 if wide else 4
    index = f"block * {each} + j < n ? block * {each} + j : n - 1"
    whole = element not in ("half_t", "bfloat_t", "float", "double")
    stored = "(E)(i64)(x)" if whole else "Cast<E>::of(x)"
    return f"""{PRELUDE}{WORDS}typedef {element} E;
typedef {given} P;
#define STORED(x) {stored}
extern "C" __global__ void kernel({PARAMETERS}) {{
  if (state) {{
    seed = state[0];
    offset += state[1];
  }}
  const u64 step = offset / 4;
  for (u64 block = blockIdx.x * (u64)blockDim.x + threadIdx.x; block * {each} < n;
       block += gridDim.x * (u64)blockDim.x) {{
    const Words w = words_of(seed, step, block);
    Pack<E, {each}> made;
{before}    #pragma unroll
    for (int j = 0; j < {each}; ++j) {{
      const u64 i = {index};
{values}      made.at[j] = value;
    }}
    if ((block + 1) * {each} <= n && !((u64)out % sizeof made)) {{
      ((Pack<E, {each}>*)out)[block] = made;
    }} else {{
      for (int j = 0; j < {each} && block * {each} + j < n; ++j)
        out[block * {each} + j] = made.at[j];
    }}
  }}
}}
"""


STATE = f"""{PRELUDE}
extern "C" __global__ void kernel(u64* state, u64 seed, u64 offset) {{
  if (blockIdx.x == 0 && threadIdx.x == 0) {{
    state[0] = seed;
    state[1] = offset;
  }}
}}
"""


class CudaPhilox(Philox):
    """The stream of a real GPU: drawn there, except what is drawn by rejection or sorted."""

    def fill(self, target: Array, distribution: str, *parameters: Any) -> None:
        """Fill an array from a distribution."""
        kernels = getattr(target.storage.buffer, "kernels", None)
        how = None if kernels is None else _plan(target, distribution, parameters)
        if how is None:
            super().fill(target, distribution, *parameters)
        elif target.spec.numel:
            _draw(self, kernels, target, *how)
        else:
            self._advance()

    def graph_advance(self, count: int) -> None:
        """Move on by the fills of a graph."""
        for _ in range(count):
            self._advance()


def is_drawn(target: Array, distribution: str, parameters: tuple[Any, ...]) -> bool:
    """Whether a fill stays on the GPU."""
    return _plan(target, distribution, parameters) is not None


def _plan(
    target: Array, distribution: str, parameters: tuple[Any, ...]
) -> tuple[str, str, str, bool, Any, tuple[Any, ...]] | None:
    """(distribution, element's type, parameter's type, wide, parameter's array, span p q low)."""
    name = target.spec.dtype.name
    name = PARTS.get(name, name)
    if name not in C_TYPES or name == "raw16":
        return None
    wide = name == "float64"
    span, p, q, low, each, given = 0, 0.0, 0.0, 0, None, "float"
    if distribution in ("uniform", "normal", "log_normal", "cauchy"):
        p, q = parameters
        wide = wide or distribution in ("log_normal", "cauchy")
        if distribution == "uniform" and (p, q) == (0.0, 1.0) and not wide:
            p, q = 0.0, 1.0
    elif distribution == "exponential":
        wide, p = True, parameters[0]
    elif distribution == "geometric":
        wide, p = True, math.log(1 - parameters[0])
    elif distribution == "bernoulli":
        wide, span = True, math.ceil(parameters[0] * 2.0**53)
    elif distribution == "integers":
        low, span = parameters
        wide = span >= WIDE_RANGE
        span = 0 if span == 1 << 64 else span
        low = low if span else 0
    elif distribution == "integers_of_type":
        distribution, wide, span = "integers", *_of_type(target.spec.dtype)
    elif distribution == "bernoulli_each":
        each = parameters[0]
        if each.spec.dtype.name not in C_TYPES:
            return None
        given, wide = C_TYPES[each.spec.dtype.name], each.spec.dtype.name == "float64"
    else:
        return None
    return distribution, C_TYPES[name], given, wide, each, (span, float(p), float(q), low)


def _of_type(dtype: Any) -> tuple[bool, int]:
    """Whether `random_()` takes 64 bits, and of how many numbers it draws (0: all of 64 bits)."""
    if dtype.name in DIGITS:
        return dtype.name == "float64", (1 << DIGITS[dtype.name]) + 1
    if dtype.name == "bool":
        return False, 2
    signed = dtype.name.startswith("int")
    bits = 8 * dtype.itemsize - signed
    if bits == 32:  # all bits: a modulus that fits no 32-bit number
        return False, 0
    return dtype.itemsize == 8, (1 << bits) & ALL_64


def _draw(
    source: CudaPhilox,
    kernels: Any,
    target: Array,
    distribution: str,
    element: str,
    given: str,
    wide: bool,
    each: Any,
    numbers: tuple[Any, ...],
) -> None:
    spec = target.spec
    out = target
    if not spec.contiguous:
        strides = contiguous_strides(spec.shape)
        out = kernels.empty(spec_of(spec.shape, strides, spec.dtype, spec.device))
    kept = None if each is None else _parameter(kernels, each, spec.shape)
    count = spec.numel * (2 if spec.dtype.name in PARTS else 1)
    text = text_of(distribution, element, given, wide)
    function = kernels.texts.get(text)
    if function is None:
        function = kernels.driver.compile(kernels.index, text).prepare([*KINDS, "q", "p"])
        kernels.texts[text] = function
    segment = kernels.memory.segment
    if segment is None:
        state, seed, offset = 0, source.initial, source._advance()
    else:
        state, seed, offset = segment.draw(source)
    span, p, q, low = numbers
    address, flag = kernels.address, kernels.flag() if each is not None else 0
    work = -(-count // (2 if wide else 4))
    blocks = max(1, min(-(-work // THREADS), kernels.processors * 8))
    arguments = [address(out), address(kept) if kept is not None else 0, flag, state]
    arguments += [seed, offset, span, p, q, low, count]
    function.launch((blocks, 1), THREADS, arguments)
    if out is not target:
        kernels.copy(target, out)


def _parameter(kernels: Any, each: Array, shape: tuple[int, ...]) -> Array:
    if each.spec.shape == shape:
        return dense(kernels, each)
    return spread_to(kernels, each, shape)
