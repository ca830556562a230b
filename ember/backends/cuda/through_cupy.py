"""Calls that CuPy does on a GPU, where it is installed (`pip install ember[cuda13-full]`): its
arrays are views of Ember's memory, and what it allocates comes from Ember's pool.

EMBER_CUPY=0 leaves them to the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ember.backends.cuda.arrays import Part
from ember.backends.cuda.cupy_functions import COMPUTES, MOVES, Elsewhere
from ember.dtypes import HALF, float32, from_numpy_dtype
from ember.kernel.array import Array, Spec, Storage, contiguous_spec, spec_of
from ember.kernel.call import LibraryCall
from ember.layout import extent

Runner = Callable[..., Any]
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
KINDS = frozenset("biufc")


class Cupy:
    """CuPy on one GPU, on the stream of Ember's kernels."""

    def __init__(self, kernels: Any):
        import cupy
        import cupyx

        self.xp, self.kernels, self.errors = cupy, kernels, cupyx.errstate
        stream = kernels.driver.use(kernels.index)
        self.device = cupy.cuda.Device(kernels.index)
        self._follow(int(stream))
        kernels.driver.followers.setdefault(kernels.index, []).append(self._follow)

    def _follow(self, stream: int) -> None:
        """Let work go to another stream."""
        self.stream = self.xp.cuda.ExternalStream(stream, self.kernels.index)

    def _memory(self, address: int, nbytes: int, owner: Any) -> Any:
        cuda = self.xp.cuda
        return cuda.MemoryPointer(cuda.UnownedMemory(address, nbytes, owner, self.kernels.index), 0)

    def _allocate(self, nbytes: int) -> Any:
        buffer = self.kernels.memory.allocate(max(nbytes, 1))
        return self._memory(buffer.address, max(nbytes, 1), buffer)

    def seen(self, array: Array, kind: Any) -> Any:
        """An array as one of CuPy's, with the same memory."""
        spec = array.spec
        size = spec.dtype.itemsize
        nbytes = max(extent(spec.shape, spec.strides) * size, 1)
        memory = self._memory(self.kernels.address(array), nbytes, array)
        strides = tuple(s * size for s in spec.strides)
        return self.xp.ndarray(spec.shape, kind, memory, strides)

    def result(self, made: Any, spec: Spec | None, dtype: Any) -> Array:
        """What CuPy has made, in memory of Ember's, as `spec` or else as it is."""
        size = made.dtype.itemsize
        kind = dtype if dtype is not None else from_numpy_dtype(made.dtype)
        out: Array = self.kernels.empty(
            spec or contiguous_spec(tuple(made.shape), kind, self.kernels.memory.device)
        )
        if out.spec.numel:
            strides = tuple(s // size for s in made.strides)
            if min(strides, default=0) < 0:
                made = self.xp.ascontiguousarray(made)
                strides = tuple(s // size for s in made.strides)
            part = Part(made, made.data.ptr, extent(tuple(made.shape), strides) * size)
            spec = spec_of(tuple(made.shape), strides, kind, out.spec.device)
            self.kernels.copy(out, Array(Storage(part, out.spec.device), spec))
        return out

    def run(self, function: Any, operands: tuple[Any, ...], specs: Any, moves: bool) -> Any:
        """The results of a function of CuPy's arrays."""
        word = None
        if moves:
            first = operands[0].spec.dtype
            word = first, WORDS[first.itemsize]
        with (
            self.device,
            self.stream,
            self.xp.cuda.using_allocator(self._allocate),
            self.errors(linalg="raise"),
        ):
            given = [self._given(o, word if at == 0 else None) for at, o in enumerate(operands)]
            try:
                made = function(self.xp, *given)
            except (np.linalg.LinAlgError, NotImplementedError):
                raise Elsewhere from None
            results = made if isinstance(made, tuple) else (made,)
            dtype = word[0] if word else None
            found = tuple(
                self.result(m, specs[at] if specs else None, dtype) for at, m in enumerate(results)
            )
        return found if isinstance(made, tuple) else found[0]

    def _given(self, operand: Any, word: Any) -> Any:
        if not isinstance(operand, Array):
            return operand
        if word is not None:
            return self.seen(operand, word[1])
        if operand.spec.dtype in HALF:  # computed in single precision
            wide = self.kernels.empty(
                contiguous_spec(operand.spec.shape, float32, operand.spec.device)
            )
            self.kernels.copy(wide, operand)
            return self.seen(wide, np.float32)
        return self.seen(operand, operand.spec.dtype.numpy)


def is_there() -> bool:
    """Whether CuPy is installed, and wanted."""
    return os.environ.get("EMBER_CUPY") != "0" and find_spec("cupy") is not None


def prepare(kernels: Any, call: LibraryCall) -> Runner | None:
    """The runner of a call that CuPy does; None for others."""
    function = MOVES.get(call.kernel) or COMPUTES.get(call.kernel)
    given = _specs(call.in_specs)
    if function is None or not is_there() or not all(map(_is_known, given)):
        return None
    if call.kernel == "unique" and given[0].dtype in HALF:  # whose result is of that dtype too
        return None
    moves = call.kernel in MOVES
    host: list[Runner] = []
    specs = call.out_specs

    def run(*operands: Any) -> Any:
        try:
            if any(isinstance(o, Array) and not o.spec.numel for o in operands):
                raise Elsewhere
            if kernels.cupy is None:
                kernels.cupy = Cupy(kernels)
            return kernels.cupy.run(function, operands, specs, moves)
        except Elsewhere:
            if not host:
                host.append(kernels._by_host(call))
            return host[0](*operands)

    run.by_host = True  # type: ignore[attr-defined]  # it may wait for results: no part of graphs
    return run


def _specs(tree: Any) -> list[Spec]:
    if isinstance(tree, Spec):
        return [tree]
    return [s for t in tree for s in _specs(t)] if isinstance(tree, (tuple, list)) else []


def _is_known(spec: Spec) -> bool:
    kind = spec.dtype.numpy.kind
    return spec.dtype in HALF or (kind in KINDS and spec.dtype.name != "complex32")
