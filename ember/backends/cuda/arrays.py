"""Arrays of a GPU: made, copied, filled, and brought to the host and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends import base
from ember.backends.cuda import tiles
from ember.backends.cuda.driver import Driver
from ember.backends.cuda.memory import CudaMemory
from ember.backends.cuda.prelude import C_TYPES, RAW
from ember.backends.cuda.source import MAP, Input, Program
from ember.device import CPU
from ember.kernel.array import Array, Spec, Storage, spec_of
from ember.kernel.dims import Dim, collapsed, spread
from ember.layout import contiguous_strides, extent
from ember.scalar.expr import var

Runner = Callable[..., Any]
LARGEST = 1 << 31  # indices from here on take 64 bits


def address(array: Array) -> int:
    """Where the first element of an array lies."""
    buffer: Any = array.storage.buffer
    return int(buffer.address) + array.offset * array.spec.dtype.itemsize


def is_large(specs: list[Spec], count: int) -> bool:
    """Whether an index into one of the arrays may need 64 bits."""
    return max([count, *(extent(s.shape, s.strides) for s in specs)]) >= LARGEST


class Part:
    """A part of a buffer that is read."""

    __slots__ = ("__weakref__", "address", "nbytes", "whole")

    def __init__(self, whole: Any, address: int, nbytes: int):
        self.whole, self.address, self.nbytes = whole, address, nbytes


class DeviceArrays:
    """The part of a GPU's kernels that has no formula to compute."""

    address = staticmethod(address)

    def __init__(self, driver: Driver, memory: CudaMemory):
        self.driver, self.memory, self.index = driver, memory, memory.index
        self._copies: dict[tuple[Spec, Spec], Runner] = {}
        self._fills: dict[Any, Runner] = {}
        self.targets: list[Array] = []  # arrays that the next results of their spec are made in

    def _map_launch(
        self, program: Program, dims: list[Dim], count: int
    ) -> Callable[[list[Any]], None]:
        raise NotImplementedError

    def empty(self, spec: Spec) -> Array:
        """An uninitialised array of a dense spec: one that a bound call is to fill, or a new
        one."""
        for position, target in enumerate(self.targets):
            if target.spec is spec:
                return self.targets.pop(position)
        return Array(Storage(self.memory.allocate(spec.nbytes), spec.device), spec)

    def copy(self, target: Array, source: Array) -> None:
        """Write an array, broadcast and cast, into another on this GPU."""
        if not target.spec.numel:
            return
        key = target.spec, source.spec
        run = self._copies.get(key)
        if run is None:
            run = self._copies[key] = self._plan_copy(*key)
        run(target, source)

    def _plan_copy(self, target: Spec, source: Spec) -> Runner:
        if target.dtype is source.dtype and target.shape == source.shape:
            if target.contiguous and source.contiguous:
                return self._straight_copy
            raw = RAW[target.dtype.itemsize]
            turned = tiles.plan(self, target, source, raw)
            return turned or self._copy_kernel(target, source, raw, raw)
        if target.dtype.name in C_TYPES and source.dtype.name in C_TYPES:
            return self._copy_kernel(target, source, target.dtype.name, source.dtype.name)
        if target.dtype is source.dtype:
            raw = RAW[target.dtype.itemsize]
            return self._copy_kernel(target, source, raw, raw)
        return self._copy_by_host

    def _straight_copy(self, target: Array, source: Array) -> None:
        self.driver.copy(self.index, address(target), address(source), target.spec.nbytes)

    def _copy_kernel(self, target: Spec, source: Spec, to: str, from_: str) -> Runner:
        dims = collapsed(
            target.shape,
            list(range(len(target.shape))),
            set(),
            [spread(source, target.shape), target.strides],
        )
        program = Program(
            (var("x"),),
            (Input("x", from_, True),),
            (to,),
            to if to in C_TYPES and to not in ("float16", "bfloat16", "raw16") else "float32",
            MAP,
            max(len(dims), 1),
            large=is_large([target, source], target.numel),
        )
        launch = self._map_launch(program, dims, target.numel)
        return lambda target, source: launch([address(source), address(target)])

    def _copy_by_host(self, target: Array, source: Array) -> None:
        host = self.to_host(target)
        value = self.to_host(source).host()
        nd = host.host()
        if nd.dtype.kind in "iufV" and value.dtype.kind not in "biufV":
            value = value.astype(np.result_type(value.dtype, np.complex64)).real
        with np.errstate(all="ignore"):
            np.copyto(nd, value, casting="unsafe")
        self.copy(target, self.to_device(host))

    def fill(self, array: Array, value: Any) -> None:
        """Set every element."""
        spec = array.spec
        if not spec.numel:
            return
        if spec.contiguous and value == 0 and not isinstance(value, complex):
            if not (isinstance(value, float) and math.copysign(1, value) < 0):
                self.driver.clear(self.index, address(array), 0, spec.nbytes)
                return
        if spec.dtype.name not in C_TYPES or not isinstance(value, (bool, int, float)):
            self._fill_by_host(array, value)
            return
        kind = "double" if isinstance(value, float) else "long long"
        key = spec, kind
        run = self._fills.get(key)
        if run is None:
            run = self._fills[key] = self._plan_fill(spec, kind)
        try:
            run([address(array), value])
        except (OverflowError, TypeError):
            self._fill_by_host(array, value)

    def _plan_fill(self, spec: Spec, kind: str) -> Callable[[list[Any]], None]:
        dims = collapsed(spec.shape, list(range(spec.ndim)), set(), [spec.strides])
        name = spec.dtype.name
        compute = "float32" if name in ("float16", "bfloat16") else name
        program = Program(
            (var("k"),),
            (Input("k", kind),),
            (name,),
            compute,
            MAP,
            max(len(dims), 1),
            large=is_large([spec], spec.numel),
        )
        return self._map_launch(program, dims, spec.numel)

    def _fill_by_host(self, array: Array, value: Any) -> None:
        nd = np.empty((), array.spec.dtype.numpy)
        with np.errstate(all="ignore"):
            np.copyto(nd, np.asarray(value), casting="unsafe")
        spec = spec_of((), (), array.spec.dtype, CPU)
        self.copy(array, self.to_device(Array(Storage(nd, CPU), spec, 0, nd)))

    def to_host(self, array: Array) -> Array:
        """A contiguous copy on the host."""
        spec = array.spec
        dense = spec_of(spec.shape, contiguous_strides(spec.shape), spec.dtype, spec.device)
        if not spec.contiguous:
            packed = self.empty(dense)
            self.copy(packed, array)
            array = packed
        nd = np.empty(spec.shape, spec.dtype.numpy)
        storage = Storage(nd, CPU)
        source = array.storage
        if source.nbytes != spec.nbytes:
            source = Storage(Part(source.buffer, address(array), spec.nbytes), spec.device)
        if nd.nbytes:
            base.copy_bytes(source, storage)
        return Array(storage, dense.with_device(CPU), 0, nd)

    def to_device(self, array: Array) -> Array:
        """A copy of a whole host array on this GPU."""
        spec = array.spec.with_device(self.memory.device)
        made = self.empty(spec)
        if spec.nbytes:
            storage = array.storage
            if not (array.offset == 0 and storage.nbytes == spec.nbytes):
                storage = Storage(np.ascontiguousarray(array.host()), CPU)
            base.copy_bytes(storage, made.storage)
        return made

    def through_host(self, target: Array, write: Callable[[Array], Any]) -> None:
        """Let `write` fill a host copy of an array, and copy that back."""
        host = self.to_host(target)
        write(host)
        self.copy(target, self.to_device(host))
