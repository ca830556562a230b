"""What every CUDA kernel starts with: the half-precision types, casts, and the primitives of the
scalar language that C++ does not have under the same name."""

from __future__ import annotations

C_TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "half_t",
    "bfloat16": "bfloat_t",
    "float32": "float",
    "float64": "double",
    "raw16": "ulonglong2",  # 16 bytes that are only copied
}
RAW = {16: "raw16", 8: "uint64", 4: "uint32", 2: "uint16", 1: "uint8"}  # by size: only copied

PRELUDE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
struct half_t { unsigned short bits; };
struct bfloat_t { unsigned short bits; };
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack { T at[N]; };

__device__ __forceinline__ float widen(half_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float widen(bfloat_t x) { return __uint_as_float((u32)x.bits << 16); }
template <class T> __device__ __forceinline__ T widen(T x) { return x; }

template <class To> struct Cast {
  template <class From> static __device__ __forceinline__ To of(From x) { return (To)widen(x); }
};
template <> struct Cast<bool> {
  template <class From> static __device__ __forceinline__ bool of(From x) { return widen(x) != 0; }
};
template <> struct Cast<half_t> {
  template <class From> static __device__ __forceinline__ half_t of(From x) {
    half_t y;
    float f = (float)widen(x);
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(f));
    return y;
  }
  static __device__ __forceinline__ half_t of(half_t x) { return x; }
};
template <> struct Cast<bfloat_t> {
  template <class From> static __device__ __forceinline__ bfloat_t of(From x) {
    bfloat_t y;
    u32 bits = __float_as_uint((float)widen(x));
    y.bits = (bits & 0x7fffffffu) > 0x7f800000u
                 ? (unsigned short)((bits >> 16) | 0x40u)
                 : (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    return y;
  }
  static __device__ __forceinline__ bfloat_t of(bfloat_t x) { return x; }
};

#define INF __longlong_as_double(0x7ff0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)
template <class T> __device__ __forceinline__ bool is_nan(T x) { return x != x; }
template <class T> __device__ __forceinline__ bool is_inf(T x) { return x == x && x - x != x - x; }
template <class T> __device__ __forceinline__ bool is_finite(T x) { return x - x == x - x; }
template <class T> __device__ __forceinline__ T magnitude(T x) { return x < 0 ? -x : x; }
__device__ __forceinline__ float magnitude(float x) { return fabsf(x); }
__device__ __forceinline__ double magnitude(double x) { return fabs(x); }
template <class T> __device__ __forceinline__ T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
template <class T> __device__ __forceinline__ T max_nan(T a, T b) {
  return a >= b || a != a ? a : b;
}
template <class T> __device__ __forceinline__ T min_nan(T a, T b) {
  return a <= b || a != a ? a : b;
}
template <class T> __device__ __forceinline__ T max_number(T a, T b) {
  return a >= b || b != b ? a : b;
}
template <class T> __device__ __forceinline__ T min_number(T a, T b) {
  return a <= b || b != b ? a : b;
}
template <class T> __device__ __forceinline__ T mod_trunc(T a, T b) { return b == 0 ? 0 : a % b; }
__device__ __forceinline__ float mod_trunc(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double mod_trunc(double a, double b) { return fmod(a, b); }
template <class T> __device__ __forceinline__ T mod_floor(T a, T b) {
  T r = mod_trunc(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
template <class T> __device__ __forceinline__ T divide_floor(T a, T b) {
  T q = b == 0 ? 0 : a / b;
  return b != 0 && q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}
template <class T> __device__ __forceinline__ T real_divide_floor(T a, T b) {
  if (b == 0) return a / b;
  T r = mod_trunc(a, b), q = (a - r) / b;
  if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
  if (q == 0) return copysign((T)0, a / b);
  T f = floor(q);
  return q - f > (T)0.5 ? f + 1 : f;
}
__device__ __forceinline__ float divide_floor(float a, float b) { return real_divide_floor(a, b); }
__device__ __forceinline__ double divide_floor(double a, double b) {
  return real_divide_floor(a, b);
}
template <class T> __device__ __forceinline__ T divide_trunc(T a, T b) {
  return b == 0 ? 0 : a / b;
}
__device__ __forceinline__ float divide_trunc(float a, float b) { return truncf(a / b); }
__device__ __forceinline__ double divide_trunc(double a, double b) { return trunc(a / b); }
template <class T> __device__ __forceinline__ T power(T a, T n) {
  T result = 1;
  if (n < 0) return a == 1 ? 1 : a == (T)-1 ? (n % 2 ? (T)-1 : (T)1) : (T)0;
  for (; n > 0; n >>= 1, a *= a)
    if (n & 1) result *= a;
  return result;
}
__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }
template <class T> __device__ __forceinline__ T logistic(T x) {
  T z = exp(-magnitude(x));
  return (x < 0 ? z : (T)1) / (1 + z);
}
template <class T> __device__ __forceinline__ T log_ndtr_of(T x) {
  return x < -1 ? log(erfcx(-x * (T)0.70710678118654752) / 2) - x * x / 2
                : log1p(-erfc(x * (T)0.70710678118654752) / 2);
}
template <class T> __device__ __forceinline__ T shifted_left(T x, T n) {
  return n >= 0 && n < (T)(8 * sizeof(T)) ? x << n : 0;
}
template <class T> __device__ __forceinline__ T shifted_right(T x, T n) {
  return x >> (n >= 0 && n < (T)(8 * sizeof(T)) ? n : (T)(8 * sizeof(T) - 1));
}

struct Add {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
};
struct Mul {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a * b; }
};
struct Max {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return max_nan(a, b); }
};
struct Min {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return min_nan(a, b); }
};
struct And {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a && b; }
};
struct Or {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a || b; }
};

template <class T> __device__ __forceinline__ T from_lane(T x, int distance) {
  return __shfl_xor_sync(0xffffffffu, x, distance);
}
__device__ __forceinline__ bool from_lane(bool x, int distance) {
  return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0;
}
// All threads of a row get the row's total; THREADS is 32 (a warp a row) or the whole block.
template <class How, int THREADS, class T>
__device__ __forceinline__ T combined(T x, T start, T* shared) {
  for (int distance = 16; distance; distance >>= 1) x = How::of(x, from_lane(x, distance));
  if (THREADS == 32) return x;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (threadIdx.x & 31) < THREADS / 32 ? shared[threadIdx.x & 31] : start;
  for (int distance = 16; distance; distance >>= 1) x = How::of(x, from_lane(x, distance));
  return x;
}
"""

# C++ text of primitives whose text in the scalar language's table does not fit as it is
TEXTS = {
    "abs": "magnitude({0})",
    "sign": "sign_of({0})",
    "round": "rint({0})",
    "floor_divide": "divide_floor({0}, {1})",
    "trunc_divide": "divide_trunc({0}, {1})",
    "remainder": "mod_floor({0}, {1})",
    "fmod": "mod_trunc({0}, {1})",
    "signbit": "(bool)signbit({0})",
    "pow": "power({0}, {1})",
    "rsqrt": "((T)1 / sqrt({0}))",
    "reciprocal": "((T)1 / {0})",
    "sigmoid": "logistic({0})",
    "erfinv": "erfinv({0})",
    "ndtr": "normcdf({0})",
    "ndtri": "normcdfinv({0})",
    "log_ndtr": "log_ndtr_of({0})",
    "i0": "cyl_bessel_i0({0})",
    "i1": "cyl_bessel_i1({0})",
    "bessel_j0": "j0({0})",
    "bessel_j1": "j1({0})",
    "bessel_y0": "y0({0})",
    "bessel_y1": "y1({0})",
    "fmax": "max_number({0}, {1})",
    "fmin": "min_number({0}, {1})",
    "logical_xor": "(({0} != 0) != ({1} != 0))",
    "isnan": "is_nan({0})",
    "isinf": "is_inf({0})",
    "isfinite": "is_finite({0})",
    "shift_left": "shifted_left({0}, {1})",
    "shift_right": "shifted_right({0}, {1})",
}
# primitives whose own text is C++ already
PLAIN = frozenset(
    "add sub mul div neg floor ceil trunc copysign hypot sqrt exp exp2 expm1 log log2 log10 log1p "
    "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfcx lgamma "
    "maximum minimum where lt le gt ge eq ne logical_and logical_or logical_not bitwise_and "
    "bitwise_or bitwise_xor bitwise_not nextafter stop".split()
)
REALS_ONLY = frozenset(
    "floor ceil trunc round copysign hypot sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 "
    "log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfcx erfinv "
    "lgamma ndtr ndtri log_ndtr i0 i1 bessel_j0 bessel_j1 bessel_y0 bessel_y1 sigmoid div signbit "
    "nextafter isinf isfinite".split()
)
WHOLE_ONLY = frozenset(
    "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right".split()
)
