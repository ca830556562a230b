"""A stand-in for CUDA's driver: memory on the host, kernels compiled with g++ and run by one thread
that plays all of them. It shows that the generated code computes what it should; not how it runs in
parallel, which only a GPU shows."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import time

import numpy as np

COMPILER = shutil.which("g++")
SHIM = r"""
#include <cmath>
#include <cstring>
using namespace std;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __syncthreads()
#define __shfl_xor_sync(mask, x, distance) (x)
struct ulonglong2 { unsigned long long x, y; };
struct Place { unsigned x, y; };
template <class T, class V> static void atomicAdd(T* p, V v) { *p += v; }
static void atomicExch(int* p, int v) { *p = v; }
static Place blockIdx, threadIdx, blockDim = {1, 1}, gridDim = {1, 1};
template <class T, class... Rest> static T alone(T x, Rest...) { return x; }
template <class To, class From> static To bits_as(From x) {
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
#define __fmaf_rn fmaf
#define __fmul_rn(x, y) ((float)(x) * (float)(y))
#define __fadd_rn(x, y) ((float)(x) + (float)(y))
#define __fsqrt_rn sqrtf
#define rsqrtf(x) (1.0f / sqrtf(x))
#define __float_as_uint(x) bits_as<unsigned>(x)
#define __uint_as_float(x) bits_as<float>(x)
#define __longlong_as_double(x) bits_as<double>(x)
"""
AFTER = """
extern "C" void run(unsigned chunks, void** a) {
  for (unsigned y = 0; y < chunks; ++y) { blockIdx = {0, y}; kernel(%s); }
}
"""


def adapted(source):
    """CUDA C of a kernel as C++ for one thread."""
    source = re.sub(
        r'asm\("cvt.f32.f16[^;]*;[^;]*;', "y = (float)bits_as<_Float16>(x.bits);", source
    )
    source = re.sub(
        r'asm\("cvt.rn.f16[^;]*;[^;]*;', "y.bits = bits_as<unsigned short>((_Float16)f);", source
    )
    source = re.sub(r"(threadIdx\.x|blockDim\.x) ([/%]) \d+", r"\1 \2 1", source)
    source = re.sub(r"e \+= \d+\)", "e += 1)", source)
    source = re.sub(r"LANES = \d+", "LANES = 1", source)
    source = re.sub(r"combined<\w+, \w+>", "alone", source)
    source = re.sub(r"THREADS = (\d+), KEEP = (\d+)", r"THREADS = 1, KEEP = \1 * \2", source)
    parameters = re.search(r"void kernel\((.*?)\) \{", source, re.S).group(1).split(", ")
    casts = []
    for i, parameter in enumerate(parameters):
        kind = re.sub(r"\b\w+$", "", parameter).replace("__restrict__", "").strip()
        casts.append(f"*({kind}*)a[{i}]")
    return SHIM + source + AFTER % ", ".join(casts)


class Emulator:
    """What `ember.backends.cuda` asks of a driver."""

    def __init__(self, folder, count=1, memory=1 << 30):
        self.folder, self.number, self.total = folder, count, memory
        self.blocks, self.opened, self.launches = {}, set(), 0
        self.locked, self.pending = {}, set()  # events that are not to be reached yet
        self.tape = None  # what is captured
        self.streams, self.chosen, self.followers, self.waits = 0, {}, {}, []

    def count(self):
        return self.number

    def attribute(self, index, name):
        return 4

    def name(self, index):
        return "Emulated GPU"

    def memory(self, index):
        return self.total

    def capability(self, index):
        return 9, 0

    def uuid(self, index):
        return f"00000000-0000-0000-0000-{index:012x}"

    def use(self, index):
        self.opened.add(index)
        return 0

    def is_open(self, index):
        return index in self.opened

    def new_stream(self, index, priority=0):
        self.streams += 1
        return self.streams

    def choose(self, index, stream):
        if stream != self.chosen.get(index, 0):
            self.chosen[index] = stream
            for follow in self.followers.get(index, ()):
                follow(stream)

    def current(self, index):
        return self.chosen.get(index, 0)

    def follow(self, index, stream, event):
        self.waits.append((stream, event))

    def synchronize(self, index, stream=None):
        pass

    def finish(self, index):
        pass

    def mark(self, index, timed=True, stream=None):
        return time.perf_counter()

    def elapsed(self, start, end):
        return (end - start) * 1000

    def reached(self, event):
        return event not in self.pending

    def wait_for(self, event):
        pass

    def idle(self, index, stream=None):
        return True

    def take(self, index, nbytes):
        self.use(index)
        block = np.full(nbytes + 64, 0xAB, np.uint8)
        address = -(-block.ctypes.data // 64) * 64
        self.blocks[address] = block
        return address

    def give(self, index, address):
        del self.blocks[address]

    def room(self, index):
        return self.total - sum(b.nbytes for b in self.blocks.values())

    def upload(self, index, address, host):
        assert host.flags.c_contiguous and self.tape is None
        ctypes.memmove(address, host.ctypes.data, host.nbytes)

    def download(self, index, address, host):
        assert self.tape is None
        ctypes.memmove(host.ctypes.data, address, host.nbytes)

    def copy(self, index, target, source, nbytes):
        self.work(lambda: ctypes.memmove(target, source, nbytes))

    def clear(self, index, address, value, nbytes):
        self.work(lambda: ctypes.memset(address, value, nbytes))

    def send(self, index, address, host, nbytes):
        assert host in self.pages(host, nbytes)
        self.work(lambda: ctypes.memmove(address, host, nbytes))

    def fetch(self, index, host, address, nbytes):
        assert host in self.pages(host, nbytes)
        self.work(lambda: ctypes.memmove(host, address, nbytes))

    def lock_pages(self, index, nbytes):
        self.use(index)
        block = np.zeros(nbytes, np.uint8)
        self.locked[block.ctypes.data] = block
        return block.ctypes.data

    def unlock_pages(self, address):
        del self.locked[address]

    def pages(self, host, nbytes):
        """The page-locked memory that what is copied lies in."""
        for address, block in self.locked.items():
            if address <= host and host + nbytes <= address + block.nbytes:
                return range(address, address + block.nbytes)
        raise AssertionError("this memory is not page-locked")

    def word(self, index):
        return np.zeros(1, np.int32)

    def work(self, piece):
        if self.tape is None:
            piece()
        else:
            self.tape.append(piece)

    def begin_capture(self, index):
        self.tape = []

    def end_capture(self, index):
        tape, self.tape = self.tape, None
        return tape

    def launch_graph(self, index, graph):
        for piece in graph:
            piece()

    def forget_graph(self, graph):
        graph.clear()

    def compile(self, index, source):
        return EmulatedFunction(self, adapted(source))


class EmulatedFunction:
    """A compiled kernel."""

    def __init__(self, driver, source):
        self.driver = driver
        name = hashlib.sha256(source.encode()).hexdigest()[:24]
        library = os.path.join(driver.folder, f"{name}.so")
        if not os.path.exists(library):
            path = os.path.join(driver.folder, f"{name}.{os.getpid()}.cpp")
            with open(path, "w") as file:
                file.write(source)
            command = [
                COMPILER,
                "-O1",
                "-w",
                "-ffp-contract=off",
                "-std=c++17",
                "-shared",
                "-fPIC",
                path,
                "-o",
            ]
            done = subprocess.run([*command, path + ".so"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:3000]
            os.replace(path + ".so", library)
        self.run = ctypes.CDLL(library).run

    def prepare(self, kinds):
        types = {"p": ctypes.c_uint64, "q": ctypes.c_int64, "i": ctypes.c_uint32,
                 "d": ctypes.c_double}  # fmt: skip
        self.places = [types[k]() for k in kinds]
        self.table = (ctypes.c_void_p * len(kinds))(*(ctypes.addressof(p) for p in self.places))
        return self

    def bound(self, grid, threads, last):
        return lambda arguments: self.launch(grid, threads, [*arguments, *last])

    def launch(self, grid, threads, arguments):
        self.driver.launches += 1
        self.driver.work(lambda: self.now(grid, list(arguments)))

    def now(self, grid, arguments):
        for place, value in zip(self.places, arguments, strict=True):
            place.value = value
        self.run(ctypes.c_uint(grid[1]), self.table)
