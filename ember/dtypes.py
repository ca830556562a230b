"""The dtypes, their limits, and PyTorch's type promotion as data."""

from __future__ import annotations

import builtins
import math
from typing import Any, ClassVar

import numpy as np

BOOL, INTEGRAL, FLOAT, COMPLEX = range(4)  # categories, in the order in which they win a promotion


class dtype:
    """The type of a tensor's elements; one object each, compared by identity.

    >>> import ember as torch
    >>> torch.float32, torch.float32.itemsize
    (torch.float32, 4)
    """

    __slots__ = (
        "__weakref__",
        "alias",
        "category",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "title",
    )
    by_name: ClassVar[dict[str, dtype]] = {}

    numpy: np.dtype[Any]
    itemsize: int

    def __init__(self, name: str, storage: Any, category: int, title: str, alias: str = ""):
        """`storage` is NumPy's type of the elements, or their size in bytes if it is ml_dtypes'."""
        self.name = name
        if isinstance(storage, int):
            self.itemsize = storage
        else:
            self.numpy = np.dtype(storage)
            self.itemsize = self.numpy.itemsize
        self.category = category
        self.is_signed = category != BOOL and name not in ("uint8", "uint16", "uint32", "uint64")
        self.title = title  # in PyTorch's messages and legacy class names: Float, Long, ...
        self.alias = alias
        dtype.by_name[name] = self

    def __getattr__(self, name: str) -> Any:
        if name != "numpy":
            raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")
        if self in QUANTIZED:
            raise NotImplementedError(
                f"there are no tensors of {self} in Ember: quantization is left out; float16 and "
                "bfloat16 make models smaller"
            )
        import ml_dtypes  # at the first use of such a dtype: it costs a tenth of NumPy's import

        self.numpy = found = np.dtype(getattr(ml_dtypes, self.name))
        return found

    @property
    def is_floating_point(self) -> bool:
        """Whether the elements are real floating-point numbers."""
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.category == COMPLEX

    def to_real(self) -> dtype:
        """The real dtype of a complex one's parts; a real dtype itself."""
        return REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this dtype."""
        return self if self.category == COMPLEX else COMPLEX_OF.get(self, complex64)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)

    def __deepcopy__(self, memo: Any) -> dtype:
        return self

    def __copy__(self) -> dtype:
        return self


def _by_name(name: str) -> dtype:
    return dtype.by_name[name]


bool_ = dtype("bool", np.bool_, BOOL, "Bool")
uint8 = dtype("uint8", np.uint8, INTEGRAL, "Byte")
int8 = dtype("int8", np.int8, INTEGRAL, "Char")
int16 = dtype("int16", np.int16, INTEGRAL, "Short", "short")
int32 = dtype("int32", np.int32, INTEGRAL, "Int", "int")
int64 = dtype("int64", np.int64, INTEGRAL, "Long", "long")
uint16 = dtype("uint16", np.uint16, INTEGRAL, "UInt16")
uint32 = dtype("uint32", np.uint32, INTEGRAL, "UInt32")
uint64 = dtype("uint64", np.uint64, INTEGRAL, "UInt64")
float8_e4m3fn = dtype("float8_e4m3fn", 1, FLOAT, "Float8_e4m3fn")
float8_e5m2 = dtype("float8_e5m2", 1, FLOAT, "Float8_e5m2")
float16 = dtype("float16", np.float16, FLOAT, "Half", "half")
bfloat16 = dtype("bfloat16", 2, FLOAT, "BFloat16")
float32 = dtype("float32", np.float32, FLOAT, "Float", "float")
float64 = dtype("float64", np.float64, FLOAT, "Double", "double")
complex32 = dtype("complex32", 4, COMPLEX, "ComplexHalf", "chalf")
complex64 = dtype("complex64", np.complex64, COMPLEX, "ComplexFloat", "cfloat")
complex128 = dtype("complex128", np.complex128, COMPLEX, "ComplexDouble", "cdouble")

ALL = tuple(dtype.by_name.values())
QUANTIZED = (  # for tables of dtypes only: no tensor has one
    dtype("qint8", 1, COMPLEX + 1, "QInt8"),
    dtype("quint8", 1, COMPLEX + 1, "QUInt8"),
    dtype("qint32", 4, COMPLEX + 1, "QInt32"),
    dtype("quint4x2", 1, COMPLEX + 1, "QUInt4x2"),
    dtype("quint2x4", 1, COMPLEX + 1, "QUInt2x4"),
)
HALF = frozenset((float16, bfloat16))
EIGHT_BIT_FLOATS = frozenset((float8_e4m3fn, float8_e5m2))
FLOATING = frozenset(t for t in ALL if t.category == FLOAT and t not in EIGHT_BIT_FLOATS)
COMPLEX_TYPES = frozenset((complex32, complex64, complex128))
REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
COMPLEX_OF = {real: kind for kind, real in REAL_OF.items()}
INTEGERS = frozenset(t for t in ALL if t.category == INTEGRAL)
INEXACT = FLOATING | {complex64, complex128}  # complex32 is for storing: it has no functions
REAL = FLOATING | INTEGERS
REAL_OR_BOOL = REAL | {bool_}
ANY = INEXACT | INTEGERS | {bool_, complex32}

_FROM_ML_DTYPES = (bfloat16, complex32, float8_e4m3fn, float8_e5m2)
_FROM_NUMPY = {t.numpy: t for t in ALL if t not in _FROM_ML_DTYPES}
_INTEGER_ORDER = {"uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4}


def from_numpy_dtype(numpy_type: Any) -> dtype:
    """The dtype of a NumPy dtype; TypeError if PyTorch has none for it."""
    found = _FROM_NUMPY.get(np.dtype(numpy_type))
    if found is None:
        _FROM_NUMPY.update({t.numpy: t for t in _FROM_ML_DTYPES})
        found = _FROM_NUMPY.get(np.dtype(numpy_type))
    if found is None:
        native = np.dtype(numpy_type).newbyteorder("=")
        if native in _FROM_NUMPY:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion "
                "between byte orders is currently not supported. (convert it with "
                f".astype({native.str!r}) first)"
            )
        known = ", ".join(str(t.numpy) for t in ALL if t.numpy.isbuiltin == 1)
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(numpy_type).type.__name__}. "
            f"The only supported types are: {known}."
        )
    return found


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if EIGHT_BIT_FLOATS & {a, b}:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.title} and "
            f"{b.title}"
        )
    if a.category != b.category:
        low, high = sorted((a, b), key=lambda t: t.category)
        if high.category == COMPLEX and low.category == FLOAT:
            return _promote(high, low.to_complex())
        return high
    if a.category == FLOAT:
        if {a, b} == {float16, bfloat16}:
            return float32
        return max(a, b, key=lambda t: (t.itemsize, t.name))
    if a.category == COMPLEX:
        return max(a, b, key=lambda t: t.itemsize)
    ranks = [_INTEGER_ORDER.get(t.name) for t in (a, b)]
    if None in ranks:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.title} and {b.title}"
        )
    if {a, b} == {uint8, int8}:
        return int16
    return a if ranks[0] > ranks[1] else b  # type: ignore[operator]


_PROMOTED: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both promote to, as PyTorch's table has it.

    >>> import ember as torch
    >>> torch.promote_types(torch.int64, torch.float16)
    torch.float16
    """
    try:
        return _PROMOTED[type1, type2]
    except KeyError:
        found = _PROMOTED[type1, type2] = _promote(type1, type2)
        return found


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of dtype `from_` may be stored as `to` (a float not as an integer, ...)."""
    return from_.category <= to.category


def category_of_number(value: Any) -> int:
    """The category of a Python or NumPy number; TypeError for what is none."""
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, (int, np.integer)):
        return INTEGRAL
    if isinstance(value, complex | np.complexfloating):
        return COMPLEX
    if isinstance(value, (float, np.floating, np.generic)):
        return FLOAT
    raise TypeError(f"expected a Number or a Tensor, but got {type(value).__name__}: {value!r}")


def as_dtype(name: str, value: Any, parameter: str = "'dtype'") -> dtype:
    """A dtype given as such or as Python's type of numbers: float means float64, int int64. `name`
    is that of the function, `parameter` of its argument, for the TypeError about anything else."""
    if isinstance(value, dtype):
        return value
    found = PYTHON_TYPES.get(value) if isinstance(value, type) else None
    if found is None:
        raise TypeError(
            f"{name}(): argument {parameter} must be torch.dtype, not {type(value).__name__}"
        )
    return found


PYTHON_TYPES = {bool: bool_, int: int64, float: float64, complex: complex128}


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution.

    >>> import ember as torch
    >>> torch.finfo(torch.float32).bits
    32
    """

    def __init__(self, type: dtype | builtins.type = float32):
        type = as_dtype("finfo", type, "'type' (position 1)")
        if type.category < FLOAT:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                "'torch.finfo'"
            )
        import ml_dtypes  # NumPy's has no bfloat16

        make: Any = ml_dtypes.finfo
        info = make(type.to_real().numpy)
        self.bits = int(info.bits)
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = 10.0 ** -int(-math.log10(self.eps))  # a unit of the last sure digit
        self.dtype = type.to_real().name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, min, max.

    >>> import ember as torch
    >>> torch.iinfo(torch.int8).max
    127
    """

    def __init__(self, type: dtype | builtins.type):
        type = as_dtype("iinfo", type, "'type' (position 1)")
        if type is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category != INTEGRAL:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                "'torch.iinfo'"
            )
        info = np.iinfo(type.numpy)
        self.bits, self.min, self.max = info.bits, int(info.min), int(info.max)
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
