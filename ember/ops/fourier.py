"""Discrete Fourier transforms: `torch.fft`.

Four kernels are all: of complex numbers and back, of real numbers to half a spectrum and back. They
are linear, so each gradient is the adjoint transform, whose norm is the opposite one.
"""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import floated
from ember.core.factory import shape_of
from ember.core.registry import FFT, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim, wrap_dims
from ember.ops.joining import cat
from ember.ops.ranges import arange

Dims = tuple[int, ...]
OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

# the transforms; dims are counted from the front, sizes are those of the signal


def _complex(input: Tensor, shape: Any = None) -> Spec:
    spec = input.spec.with_shape(tuple(input.shape) if shape is None else shape)
    return spec.with_dtype(dtypes.promote_types(input.dtype, dtypes.complex64))


def _resized(shape: Any, dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


@library_op(Library.fftn, name="fft_fftn")
def forward_op(input: Tensor, s: Dims, dim: Dims, norm: str) -> Spec:
    """The transform along dims."""
    return _complex(input)


@library_op(Library.ifftn, name="fft_ifftn")
def inverse_op(input: Tensor, s: Dims, dim: Dims, norm: str) -> Spec:
    """Its inverse."""
    return _complex(input)


@library_op(Library.rfftn, name="fft_rfftn")
def half_op(input: Tensor, s: Dims, dim: Dims, norm: str) -> Spec:
    """The first half of the transform of real numbers, along the last of dims."""
    return _complex(input, _resized(input.shape, dim[-1], s[-1] // 2 + 1))


@library_op(Library.irfftn, name="fft_irfftn")
def real_op(input: Tensor, s: Dims, dim: Dims, norm: str) -> Spec:
    """The real numbers that have half a spectrum."""
    spec = input.spec.with_shape(_resized(input.shape, dim[-1], s[-1]))
    return spec.with_dtype(input.dtype.to_real())


forward_op.grad = lambda g, s, dim, norm: (inverse_op(g, s, dim, OPPOSITE[norm]),)
inverse_op.grad = lambda g, s, dim, norm: (forward_op(g, s, dim, OPPOSITE[norm]),)


def _half_gradient(g: Any, s: Dims, dim: Dims, norm: str) -> Any:
    """The places left out had no gradient."""
    whole = _padded(g, dim[-1], s[-1])
    return (inverse_op(whole, s, dim, OPPOSITE[norm]).real,)


def _real_gradient(g: Any, s: Dims, dim: Dims, norm: str) -> Any:
    """Every place but the ends stood for two, itself and its conjugate."""
    made = half_op(g, s, dim, OPPOSITE[norm])
    place, last = arange(made.shape[dim[-1]], device=g.device), s[-1]
    twice = ((place > 0) & (place * 2 < last)).to(g.dtype) + 1
    return (made * twice.reshape((-1, *[1] * (g.ndim - 1 - dim[-1]))),)


half_op.grad, real_op.grad = _half_gradient, _real_gradient

# arguments


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    """A tensor cut, or padded with zeros, to a size along a dim."""
    found = x.shape[dim]
    if found == size:
        return x
    if found > size:
        return x.narrow(dim, 0, size)
    return cat([x, x.new_zeros(_resized(x.shape, dim, size - found))], dim)


def _prepared(input: Tensor, must_be_complex: bool = False) -> Tensor:
    dtype = floated(input.dtype)
    check(
        dtype not in (dtypes.float16, dtypes.bfloat16),
        RuntimeError,
        f"Unsupported dtype {dtype.title}",
    )
    if must_be_complex:
        dtype = dtypes.promote_types(dtype, dtypes.complex64)
    return input.to(dtype)


def _norm(norm: str | None) -> str:
    check(
        norm is None or norm in OPPOSITE,
        RuntimeError,
        f'Invalid normalization mode: "{norm}"',
    )
    return norm or "backward"


def _sizes_and_dims(input: Tensor, s: Any, dim: Any) -> tuple[Dims | None, Dims]:
    """The sizes as given (or None) and the dims, which are all, or the last ones with sizes."""
    sizes = None if s is None else shape_of((s,))
    if dim is None:
        check(
            sizes is None or len(sizes) <= input.ndim,
            RuntimeError,
            f"Got shape with {len(sizes or ())} values but input tensor only has {input.ndim} "
            "dimensions.",
        )
        count = input.ndim if sizes is None else len(sizes)
        return sizes, tuple(range(input.ndim - count, input.ndim))
    dims = tuple(
        wrap_dim(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else [dim])
    )
    check(len(set(dims)) == len(dims), RuntimeError, "FFT dims must be unique")
    check(
        sizes is None or len(sizes) == len(dims),
        RuntimeError,
        "When given, dim and shape arguments must have the same length",
    )
    return sizes, dims


def _check_sizes(sizes: Dims) -> None:
    for size in sizes:
        check(size > 0, RuntimeError, f"Invalid number of data points ({size}) specified")


def _fitted(input: Tensor, sizes: Dims | None, dims: Dims) -> tuple[Tensor, Dims]:
    """The input cut or padded, and its sizes; −1 keeps a size."""
    for place, dim in enumerate(dims):
        if sizes is not None and sizes[place] != -1:
            _check_sizes(sizes[place : place + 1])
            input = _padded(input, dim, sizes[place])
    found = tuple(input.shape[d] for d in dims)
    _check_sizes(found)
    return input, found


def _whole(op: Any, input: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    input, norm = _prepared(input, must_be_complex=True), _norm(norm)
    input, sizes = _fitted(input, *(found := _sizes_and_dims(input, s, dim)))
    return op(input, sizes, found[1], norm) if sizes else input.clone()


def _half(name: str, input: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    check(
        not input.is_complex(),
        RuntimeError,
        f"{name} expects a real input tensor, but got {input.dtype.title}",
    )
    input, norm = _prepared(input), _norm(norm)
    sizes, dims = _sizes_and_dims(input, s, dim)
    check(dims, RuntimeError, f"{name} must transform at least one axis")
    input, sizes = _fitted(input, sizes, dims)
    return half_op(input, sizes, dims, norm)


def _real(name: str, input: Tensor, s: Any, dim: Any, norm: Any, turned: bool = False) -> Tensor:
    input, norm = _prepared(input, must_be_complex=True), _norm(norm)
    sizes, dims = _sizes_and_dims(input, s, dim)
    check(dims, RuntimeError, f"{name} must transform at least one axis")
    last = 2 * (input.shape[dims[-1]] - 1) if sizes is None or sizes[-1] == -1 else sizes[-1]
    _check_sizes((last,))
    kept = (*(input.shape[d] for d in dims[:-1]), 0) if sizes is None else sizes
    input, fitted = _fitted(input, (*kept[:-1], last // 2 + 1), dims)
    input = input.conj() if turned else input
    return real_op(input, (*fitted[:-1], last), dims, OPPOSITE[norm] if turned else norm)


# torch.fft


def _check_dims(input: Tensor) -> None:
    check(input.ndim > 0, IndexError, "Dimension specified as -1 but tensor has no dimensions")


_WHAT = {
    "fft": ("Σ x[j]·exp(−2πi·jk/n)", lambda *a: _whole(forward_op, *a)),
    "ifft": ("the inverse of fft", lambda *a: _whole(inverse_op, *a)),
    "rfft": (
        "the first n//2 + 1 places of the fft of real numbers",
        lambda *a: _half("rfft", *a),
    ),
    "irfft": ("the n real numbers whose rfft is given", lambda *a: _real("irfft", *a)),
    "hfft": (
        "the n real numbers that are the fft of a signal with x[−j] = conj(x[j]), half given",
        lambda *a: _real("hfft", *a, turned=True),
    ),
    "ihfft": (
        "the inverse of hfft: the first n//2 + 1 places",
        lambda input, s, dim, norm: _half("ihfft", input, s, dim, OPPOSITE[_norm(norm)]).conj(),
    ),
}


def _define(kind: str, meaning: str, transform: Any) -> None:
    def along_one(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        _check_dims(input)
        _check_sizes(() if n is None else (n,))
        return transform(input, None if n is None else (n,), (dim,), norm)

    def along_two(
        input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return transform(input, s, dim, norm)

    def along_several(
        input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:
        return transform(input, s, dim, norm)

    rest = 'norm "backward" divides the inverse by n, "forward" the transform, "ortho" both by √n.'
    for name, function, where in (
        (kind, along_one, "along `dim`, cut or padded with zeros to n"),
        (f"{kind}2", along_two, "along two dims, cut or padded to s"),
        (f"{kind}n", along_several, "along several dims (all, or the last len(s)), sized s"),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"A Fourier transform {where}: {meaning}.\n\n{rest}"
        composite(FFT | OUT, name=name)(function)


for _kind, (_meaning, _transform) in _WHAT.items():
    _define(_kind, _meaning, _transform)

# frequencies


@composite(FFT)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 moved to the middle of dims (all by default).

    >>> import ember as torch
    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    dims = wrap_dims(dim, input.ndim)
    return input.roll([input.shape[d] // 2 for d in dims], dims) if dims else input.clone()


@composite(FFT)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    dims = wrap_dims(dim, input.ndim)
    return input.roll([(input.shape[d] + 1) // 2 for d in dims], dims) if dims else input.clone()


def _frequencies(name: str, made: Tensor, n: int, d: float, options: dict[str, Any]) -> Tensor:
    dtype = options.pop("dtype", None)
    requires_grad = options.pop("requires_grad", False)
    check(
        dtype is None or dtype.category >= dtypes.FLOAT,
        RuntimeError,
        f"{name} requires a floating point or complex dtype",
    )
    made = made.to(dtype or floated(dtypes.int64)) * (1.0 / (n * d) if n else 1.0)
    return made.requires_grad_() if requires_grad else made


@composite(FFT | OUT)
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `fft` of n samples d apart: 0, 1, … −2, −1 over n·d.

    >>> import ember as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    made = arange(n, device=device)
    made = made - (made >= (n + 1) // 2) * n
    return _frequencies("fftfreq", made, n, d, {"dtype": dtype, "requires_grad": requires_grad})


@composite(FFT | OUT)
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `rfft` of n samples d apart: 0 … n//2 over n·d."""
    made = arange(n // 2 + 1, device=device)
    return _frequencies("rfftfreq", made, n, d, {"dtype": dtype, "requires_grad": requires_grad})
