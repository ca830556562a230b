"""A stand-in for CuPy on the emulated GPUs, whose memory is the host's: NumPy, with the few things
of CuPy's that Ember uses. `install()` makes `import cupy` find it."""

import contextlib
import ctypes
import sys
import types

import numpy as np

from ember.backends.cuda import through_cupy

allocators = []


class UnownedMemory:
    def __init__(self, address, nbytes, owner, device):
        self.address, self.nbytes, self.owner = address, nbytes, owner


class MemoryPointer:
    def __init__(self, memory, offset):
        self.memory, self.ptr = memory, memory.address + offset


class Made(np.ndarray):
    """An ndarray that tells its address as CuPy's arrays do."""

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)


def ndarray(shape, dtype, pointer, strides):
    memory = pointer.memory
    held = (ctypes.c_uint8 * memory.nbytes).from_address(memory.address)
    held.owner = memory
    return np.ndarray(shape, dtype, held, 0, strides).view(Made)


def known_to_cupy(made):
    """A result in memory that came from the allocator, as CuPy's would."""
    if isinstance(made, tuple):
        return tuple(known_to_cupy(m) for m in made)
    made = np.asarray(made)
    if not (made.flags.c_contiguous or made.flags.f_contiguous):
        made = np.ascontiguousarray(made)
    pointer = allocators[-1](made.nbytes)
    out = ndarray(made.shape, made.dtype, pointer, made.strides if made.size else None)
    out[...] = made
    return out


@contextlib.contextmanager
def using_allocator(allocate):
    allocators.append(allocate)
    yield
    allocators.pop()


def install():
    cupy, cupyx = types.ModuleType("cupy"), types.ModuleType("cupyx")
    for name in dir(np):
        if not name.startswith("_") and name != "ndarray":
            setattr(cupy, name, getattr(np, name))
    cupy.ndarray = ndarray
    cupy.cuda = types.SimpleNamespace(
        UnownedMemory=UnownedMemory,
        MemoryPointer=MemoryPointer,
        Device=lambda index: contextlib.nullcontext(),
        ExternalStream=lambda stream, index: contextlib.nullcontext(),
        using_allocator=using_allocator,
    )
    cupyx.errstate = lambda **kinds: contextlib.nullcontext()
    sys.modules.update(cupy=cupy, cupyx=cupyx)
    calls = []

    def watched(function):
        def compute(xp, *operands):
            made = function(xp, *operands)
            calls.append(function.__name__)
            return known_to_cupy(made)

        return compute

    through_cupy.is_there = lambda: True
    for table in (through_cupy.MOVES, through_cupy.COMPUTES):
        table.update({name: watched(function) for name, function in table.items()})
    return calls
