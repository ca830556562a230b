"""Convolutions as execution plans of cuDNN's graph interface, which choose better and start quicker
than its older functions: what tensor cores compute goes this way.

A plan is the first that the heuristics name and that can be built; with
`torch.backends.cudnn.benchmark` the quickest of the first few.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ember.errors import AcceleratorError

# cudnnBackendDescriptorType_t
CONVOLUTION, CONFIG, HEURISTICS, PLAN, GRAPH, PACK, TENSOR = 1, 3, 4, 5, 15, 16, 17
OPERATIONS = {"convolution": 10, "convolution_weight": 11, "convolution_input": 12}
# cudnnBackendAttributeName_t: the operation's arrays in the order of a call's, then the convolution
OPERANDS = {
    "convolution": (704, 703, 705, 702, 700, 701),
    "convolution_input": (711, 709, 710, 708, 706, 707),
    "convolution_weight": (717, 716, 715, 714, 712, 713),
}
# cudnnBackendAttributeType_t
HANDLE, DTYPE, INT64, FLOAT, POINTER, MODE, HEURISTIC, DESCRIPTOR = 0, 1, 3, 4, 6, 7, 8, 15
VALUES: dict[int, Any] = {
    HANDLE: ctypes.c_void_p,
    DTYPE: ctypes.c_int,
    INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float,
    POINTER: ctypes.c_void_p,
    MODE: ctypes.c_int,
    HEURISTIC: ctypes.c_int,
    DESCRIPTOR: ctypes.c_void_p,
}
TRUSTED, FALLBACK = 3, 2  # heuristics
ALIGNMENT = 16
CANDIDATES = 8
PACKS = 32  # sets of addresses that a plan remembers
WORKSPACE = 1 << 30
Attribute = tuple[int, int, "list[Any]"]


def descriptor(cudnn: Any, kind: int, attributes: list[Attribute]) -> int:
    """A finished descriptor."""
    made = ctypes.c_void_p()
    cudnn("BackendCreateDescriptor", kind, ctypes.byref(made))
    for name, form, values in attributes:
        array = (VALUES[form] * len(values))(*values)
        count = ctypes.c_int64(len(values))
        cudnn("BackendSetAttribute", made, name, form, count, array)
    cudnn("BackendFinalize", made)
    assert made.value is not None
    return made.value


class ConvolutionPlan:
    """One direction of a convolution of given shapes and strides."""

    def __init__(
        self,
        cudnn: Any,
        kernel: str,
        arrays: list[tuple[tuple[int, ...], tuple[int, ...]]],
        kind: int,
        how: tuple[Any, ...],
    ):
        self.cudnn = cudnn
        tensors = [
            descriptor(
                cudnn,
                TENSOR,
                [
                    (901, DTYPE, [kind]),
                    (902, INT64, list(shape)),
                    (903, INT64, list(strides)),
                    (906, INT64, [number]),
                    (900, INT64, [ALIGNMENT]),
                ],
            )
            for number, (shape, strides) in enumerate(arrays, 1)
        ]
        stride, padding, dilation = how[:3]
        geometry: list[Attribute] = [
            (106, INT64, [len(stride)]),
            (100, DTYPE, [0]),
            (101, MODE, [1]),
            (105, INT64, list(padding)),
            (104, INT64, list(padding)),
            (102, INT64, list(dilation)),
            (103, INT64, list(stride)),
        ]
        convolution = descriptor(cudnn, CONVOLUTION, geometry)
        names = OPERANDS[kernel]
        operands: list[Attribute] = [
            (name, DESCRIPTOR, [d]) for name, d in zip(names, [*tensors, convolution])
        ]
        operands += [(names[4], FLOAT, [1.0]), (names[5], FLOAT, [0.0])]
        operation = descriptor(cudnn, OPERATIONS[kernel], operands)
        handle = cudnn.handle.value
        self.graph = descriptor(
            cudnn, GRAPH, [(800, HANDLE, [handle]), (801, DESCRIPTOR, [operation])]
        )
        self.plans = self._plans()
        self.best: tuple[int, int] | None = None
        self.packs: dict[tuple[int, ...], int] = {}

    def _plans(self) -> list[tuple[int, int]]:
        """Plans that can be built, the most promising first, with their workspaces."""
        found: list[tuple[int, int]] = []
        for mode in (TRUSTED, FALLBACK):
            for config in self._configurations(mode):
                try:
                    plan = descriptor(
                        self.cudnn,
                        PLAN,
                        [(400, HANDLE, [self.cudnn.handle.value]), (401, DESCRIPTOR, [config])],
                    )
                except AcceleratorError:
                    continue
                size, count = ctypes.c_int64(), ctypes.c_int64()
                self.cudnn(
                    "BackendGetAttribute", ctypes.c_void_p(plan), 402, INT64, ctypes.c_int64(1),
                    ctypes.byref(count), ctypes.byref(size),
                )  # fmt: skip
                if size.value <= WORKSPACE:
                    found.append((plan, size.value))
                if len(found) == CANDIDATES:
                    return found
            if found:
                return found
        raise AcceleratorError("CUDA error: cuDNN has no plan for a convolution")

    def _configurations(self, mode: int) -> list[int]:
        try:
            heuristics = descriptor(
                self.cudnn,
                HEURISTICS,
                [(201, DESCRIPTOR, [self.graph]), (200, HEURISTIC, [mode])],
            )
        except AcceleratorError:
            return []
        places = (ctypes.c_void_p * (2 * CANDIDATES))()
        for i in range(len(places)):
            made = ctypes.c_void_p()
            self.cudnn("BackendCreateDescriptor", CONFIG, ctypes.byref(made))
            places[i] = made.value
        count = ctypes.c_int64()
        self.cudnn(
            "BackendGetAttribute", ctypes.c_void_p(heuristics), 202, DESCRIPTOR,
            ctypes.c_int64(len(places)), ctypes.byref(count), places,
        )  # fmt: skip
        return [int(places[i] or 0) for i in range(min(count.value, len(places)))]

    def run(self, memory: Any, addresses: tuple[int, ...], benchmark: bool) -> None:
        """Compute from two addresses into a third."""
        if self.best is None:
            self.best = self._quickest(memory, addresses) if benchmark else self.plans[0]
        self._execute(memory, addresses, *self.best)

    def _quickest(self, memory: Any, addresses: tuple[int, ...]) -> tuple[int, int]:
        driver, index = memory.driver, memory.index
        times = []
        for plan in self.plans:
            self._execute(memory, addresses, *plan)
            start = driver.mark(index)
            for _ in range(3):
                self._execute(memory, addresses, *plan)
            times.append(driver.elapsed(start, driver.mark(index)))
            self._forget()
        return self.plans[times.index(min(times))]

    def _execute(self, memory: Any, addresses: tuple[int, ...], plan: int, size: int) -> None:
        room = memory.allocate(size) if size else None
        key = (*addresses, room.address if room else 0)
        pack = self.packs.get(key)
        if pack is None:
            if len(self.packs) >= PACKS:
                self._forget()
            pack = self.packs[key] = descriptor(
                self.cudnn,
                PACK,
                [
                    (1000, INT64, [1, 2, 3]),
                    (1001, POINTER, list(addresses)),
                    (1003, POINTER, [key[-1]]),
                ],
            )
        self.cudnn(
            "BackendExecute", self.cudnn.handle, ctypes.c_void_p(plan), ctypes.c_void_p(pack)
        )

    def _forget(self) -> None:
        for pack in self.packs.values():
            self.cudnn("BackendDestroyDescriptor", ctypes.c_void_p(pack))
        self.packs.clear()
