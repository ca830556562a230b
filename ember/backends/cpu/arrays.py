"""Small library kernels over whole arrays."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]

LEAST_TURNED = 1 << 14  # elements of images from which compiling pays


def concatenate(tensors: Any, dim: int) -> Any:
    """Arrays one after another along `dim`."""
    return np.concatenate(tensors, axis=dim)


def flip(input: Any, dims: tuple[int, ...]) -> Any:
    """The elements of dims in reverse order."""
    return np.ascontiguousarray(np.flip(input, dims)).reshape(input.shape)


def roll(input: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """The elements of dims moved on by shifts, those at the end to the front."""
    return np.roll(input, shifts, dims)


def tril(input: Any, diagonal: int) -> Any:
    """Matrices in the last two dims with zeros above a diagonal."""
    return np.tril(input, diagonal)


def triu(input: Any, diagonal: int) -> Any:
    """Matrices in the last two dims with zeros below a diagonal."""
    return np.triu(input, diagonal)


def write_view(input: Any, src: Any, shape: Any, strides: Any, offset: int) -> Any:
    """A copy with `src` written at the elements that shape, strides and offset name in it."""
    made = np.array(input, order="C")
    steps = tuple(s * made.itemsize for s in strides)
    if made.size and 0 not in shape:
        np.lib.stride_tricks.as_strided(made.reshape(-1)[offset:], shape, steps)[...] = src
    return made


def row_major(nd: NDArray) -> NDArray:
    """The array in C order: a copy where it is not."""
    if nd.flags.c_contiguous or nd.ndim < 3:
        return np.ascontiguousarray(nd)
    if nd.dtype == np.float32 and nd.size >= LEAST_TURNED:
        found: NDArray | None = _turning().channels_first(nd)
        if found is not None:
            return found
    return np.ascontiguousarray(nd)


def copied(nd: NDArray, out: NDArray) -> None:
    """Write an array in C order to one of any strides."""
    if nd.ndim >= 3 and nd.size >= LEAST_TURNED and _turning().put_channels_last(nd, out):
        return
    np.copyto(out, nd, casting="unsafe")


def _turning() -> Any:
    return importlib.import_module("ember.backends.cpu.turning")  # loads the compiler: when needed
