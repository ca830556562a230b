"""Discrete Fourier transforms: SciPy's pocketfft where it is installed, else NumPy's.

float32 and complex64 stay single. `norm` is "backward" (or None: the inverse is divided by n),
"forward" (the forward transform is) or "ortho" (both, by √n). RuntimeError for length 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ember.errors import check

NDArray = np.ndarray[Any, Any]
Sizes = Sequence[int] | None

OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def fft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """X[k] = Σ x[j]·exp(−2πi·jk/n) along dim, x cut or padded with zeros to n."""
    return _transform("fftn", x, _sizes(n), (dim,), norm)


def ifft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """The inverse of `fft`."""
    return _transform("ifftn", x, _sizes(n), (dim,), norm)


def rfft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """The first n//2 + 1 places of `fft` of a real x; the others are their conjugates."""
    return _transform("rfftn", x, _sizes(n), (dim,), norm)


def irfft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """The inverse of `rfft`: n real numbers, by default 2·(size − 1)."""
    return _transform("irfftn", x, _sizes(n), (dim,), norm)


def hfft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """The `fft`, n real numbers, of a signal with x[−j] = conj(x[j]), of which half is given."""
    return hfftn(x, _sizes(n), (dim,), norm)


def ihfft(x: NDArray, n: int | None = None, dim: int = -1, norm: str | None = None) -> NDArray:
    """The inverse of `hfft`: the first n//2 + 1 places."""
    return ihfftn(x, _sizes(n), (dim,), norm)


def fftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """`fft` along several dims; s are their lengths, None for all as they are."""
    return _transform("fftn", x, s, dim, norm)


def ifftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """The inverse of `fftn`."""
    return _transform("ifftn", x, s, dim, norm)


def rfftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """`rfft` along the last of several dims, then `fft` along the others."""
    return _transform("rfftn", x, s, dim, norm)


def irfftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """The inverse of `rfftn`."""
    return _transform("irfftn", x, s, dim, norm)


def hfftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """`fft` along all dims but the last of several, then `hfft` along that."""
    return _transform("irfftn", np.conj(x), s, dim, OPPOSITE[norm])


def ihfftn(x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None = None) -> NDArray:
    """The inverse of `hfftn`."""
    return np.conj(_transform("rfftn", x, s, dim, OPPOSITE[norm]))


def _sizes(n: int | None) -> Sizes:
    return None if n is None else (n,)


@lru_cache(1)
def _library() -> ModuleType:
    """scipy.fft transforms several rows at once, which is up to five times faster."""
    try:
        import scipy.fft
    except ImportError:
        return np.fft
    library: ModuleType = scipy.fft
    return library


def _transform(name: str, x: NDArray, s: Sizes, dim: Sequence[int], norm: str | None) -> NDArray:
    """An n-dimensional transform of the library, with PyTorch's errors and for empty stacks."""
    if not len(dim):
        return np.array(x, np.result_type(x.dtype, np.complex64), order="C")
    lengths = [x.shape[d] for d in dim] if s is None else list(s)
    if name == "irfftn" and s is None:
        lengths[-1] = 2 * (lengths[-1] - 1)
    for length in lengths:
        check(length > 0, RuntimeError, f"Invalid number of data points ({length}) specified")
    if not x.size:
        return _empty(name, x, lengths, dim)
    compute: Callable[..., Any] = getattr(_library(), name)
    return np.asarray(compute(x, lengths, tuple(dim), norm), order="C")


def _empty(name: str, x: NDArray, lengths: list[int], dim: Sequence[int]) -> NDArray:
    """The transform of no signals, or of signals of length 0, which are padded."""
    shape = list(x.shape)
    for d, length in zip(dim, lengths):
        shape[d] = length
    kind = np.result_type(x.dtype, np.complex64)
    if name == "rfftn":
        shape[dim[-1]] = lengths[-1] // 2 + 1
    return np.zeros(shape, kind if name != "irfftn" else kind.type(0).real.dtype)
