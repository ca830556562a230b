"""Convolutions by cuDNN: forward, and both gradients, in one to three dims with groups, strides and
dilation. The algorithm is the first that cuDNN's heuristics name, or with
`torch.backends.cudnn.benchmark` the quickest, kept with its workspace.

What tensor cores compute (half precision, and float32 as tf32) goes by plans of cudnn_plans.py, the
rest by cuDNN's older functions. Where the first array has channels last, all are made to have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from ember.backends import cudnn as settings
from ember.backends.cuda.cudnn_plans import ALIGNMENT, ConvolutionPlan
from ember.backends.cuda.indexing import dense
from ember.errors import AcceleratorError
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import LibraryCall
from ember.layout import contiguous_strides

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}  # cudnnDataType_t
CROSS_CORRELATION, TENSOR_CORES, PLAIN_FMA = 1, 1, 3
WORKSPACE = 1 << 30  # bytes that an algorithm may take
Runner = Callable[..., Any]


def _how(call: LibraryCall) -> tuple[Any, ...]:
    """(stride, padding, dilation, groups), in at least two spatial dims."""
    how: tuple[Any, ...] = call.in_specs[-4:]
    if call.in_specs[0].ndim == 3:
        how = (*(((0 if i == 1 else 1), *h) for i, h in enumerate(how[:3])), how[3])
    return how


class Choice(ctypes.Structure):
    """cudnnConvolution*AlgoPerf_t: one algorithm that heuristics name."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


class Cudnn:
    """cuDNN for one GPU's stream."""

    def __init__(self, driver: Any, index: int):
        from cuda import pathfinder

        found = pathfinder.load_nvidia_dynamic_lib("cudnn")
        self.library = ctypes.CDLL(found.abs_path)
        stream = driver.use(index)
        self.handle = ctypes.c_void_p()
        self("Create", ctypes.byref(self.handle))
        self._follow(int(stream))
        driver.followers.setdefault(index, []).append(self._follow)
        self.library.cudnnGetVersion.restype = ctypes.c_size_t
        settings.loaded_version = int(self.library.cudnnGetVersion())

    def _follow(self, stream: int) -> None:
        """Let work go to another stream."""
        self("SetStream", self.handle, ctypes.c_void_p(stream))

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call cudnn`name`; AcceleratorError if it fails."""
        status = getattr(self.library, f"cudnn{name}")(*arguments)
        if status:
            self.library.cudnnGetErrorString.restype = ctypes.c_char_p
            words = self.library.cudnnGetErrorString(status).decode()
            raise AcceleratorError(f"CUDA error: cudnn{name}: {words}")

    def tensor(self, shape: tuple[int, ...], kind: int, last: bool) -> ctypes.c_void_p:
        """The descriptor of an array, contiguous or with channels last."""
        made, size = ctypes.c_void_p(), len(shape)
        self("CreateTensorDescriptor", ctypes.byref(made))
        strides = last_strides(shape) if last else contiguous_strides(shape)
        self("SetTensorNdDescriptor", made, kind, size, _ints(shape), _ints(strides))
        return made

    def filter(self, shape: tuple[int, ...], kind: int, last: bool) -> ctypes.c_void_p:
        """The descriptor of weights."""
        made = ctypes.c_void_p()
        self("CreateFilterDescriptor", ctypes.byref(made))
        self("SetFilterNdDescriptor", made, kind, int(last), len(shape), _ints(shape))
        return made

    def geometry(self, how: tuple[Any, ...], kind: int, tf32: bool) -> ctypes.c_void_p:
        """The descriptor of a convolution."""
        stride, padding, dilation, groups = how
        made = ctypes.c_void_p()
        self("CreateConvolutionDescriptor", ctypes.byref(made))
        compute = 1 if kind == 1 else 0
        self("SetConvolutionNdDescriptor", made, len(stride), _ints(padding), _ints(stride),
             _ints(dilation), CROSS_CORRELATION, compute)  # fmt: skip
        self("SetConvolutionGroupCount", made, groups)
        self("SetConvolutionMathType", made, TENSOR_CORES if tf32 else PLAIN_FMA)
        return made


def _ints(values: Any) -> Any:
    return (ctypes.c_int * len(values))(*values)


def _planar(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of at least two spatial dims."""
    return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape


def last_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a dense array whose channels, dim 1, lie side by side."""
    moved = contiguous_strides((shape[0], *shape[2:], shape[1]))
    return (moved[0], moved[-1], *moved[1:-1])


def channels_last(call: LibraryCall) -> bool:
    """Whether a convolution is computed with channels last: one whose first array has them so."""
    first: Spec = call.in_specs[0]
    return not first.contiguous and first.strides == last_strides(first.shape)


class Settings(NamedTuple):
    """What `torch.backends.cudnn` says when a convolution runs."""

    tf32: bool
    benchmark: bool
    deterministic: bool

    @classmethod
    def now(cls) -> Settings:
        """The settings in force."""
        return cls(settings.allow_tf32, settings.benchmark, settings.deterministic)


class Convolution:
    """One direction of a convolution of given sizes."""

    names = {
        "convolution": "ConvolutionForward",
        "convolution_input": "ConvolutionBackwardData",
        "convolution_weight": "ConvolutionBackwardFilter",
    }

    def __init__(self, cudnn: Cudnn, call: LibraryCall, chosen: Settings):
        self.cudnn = cudnn
        first, second, out = call.in_specs[0], call.in_specs[1], call.out_specs[0]
        how = _how(call)
        kind = TYPES[first.dtype.name]
        tf32 = kind in (2, 9) or (kind == 0 and chosen.tf32)
        self.last = channels_last(call)
        shapes = [_planar(s.shape) for s in (first, second, out)]
        self.run = self.names[call.kernel]
        choose = f"Find{self.run}Algorithm" if chosen.benchmark else f"Get{self.run}Algorithm_v7"
        describe = {
            "convolution": (cudnn.tensor, cudnn.filter, cudnn.tensor),
            "convolution_input": (cudnn.tensor, cudnn.filter, cudnn.tensor),
            "convolution_weight": (cudnn.tensor, cudnn.tensor, cudnn.filter),
        }[call.kernel]
        a, b, c = (d(s, kind, self.last) for d, s in zip(describe, shapes, strict=True))
        convolution = cudnn.geometry(how, kind, tf32)
        # cuDNN's order: forward x w y; data w dy dx; filter x dy dw
        self.flip = call.kernel != "convolution"
        left, right = (b, a) if self.flip else (a, b)
        self.descriptors = (left, right, c, convolution)
        found, choices = ctypes.c_int(), (Choice * 8)()
        cudnn(choose, cudnn.handle, left, right, convolution, c, 8, ctypes.byref(found), choices)
        good = [
            choices[i] for i in range(found.value)
            if choices[i].status == 0 and choices[i].memory <= WORKSPACE
            and (choices[i].determinism or not chosen.deterministic)
        ]  # fmt: skip
        if not good:
            raise AcceleratorError(f"CUDA error: cuDNN has no algorithm for {call!r}")
        self.algorithm, self.workspace = good[0].algorithm, good[0].memory
        cudnn("SetConvolutionMathType", convolution, good[0].math)
        number = ctypes.c_double if kind == 1 else ctypes.c_float
        self.one, self.zero = number(1), number(0)

    def __call__(self, memory: Any, first: int, second: int, out: int) -> None:
        """Compute into an address."""
        room = memory.allocate(self.workspace) if self.workspace else None
        left, right = (second, first) if self.flip else (first, second)
        a, b, c, convolution = self.descriptors
        pointer = ctypes.c_void_p
        self.cudnn(
            self.run, self.cudnn.handle, ctypes.byref(self.one), a, pointer(left), b,
            pointer(right), convolution, self.algorithm, pointer(room.address if room else 0),
            ctypes.c_size_t(self.workspace), ctypes.byref(self.zero), c, pointer(out),
        )  # fmt: skip


def with_last(spec: Spec) -> Spec:
    """A spec with channels last."""
    return spec_of(spec.shape, last_strides(spec.shape), spec.dtype, spec.device)


def laid(kernels: Any, array: Array) -> Array:
    """The array, or a copy of it, with channels last."""
    spec, wanted = array.spec, last_strides(array.spec.shape)
    sizes = zip(spec.shape, spec.strides, wanted, strict=True)
    if all(n == 1 or have == need for n, have, need in sizes):
        return array
    made: Array = kernels.empty(with_last(spec))
    kernels.copy(made, array)
    return made


def _plan(cudnn: Cudnn, call: LibraryCall, chosen: Settings) -> ConvolutionPlan | None:
    """A plan for what tensor cores compute, if cuDNN has one."""
    kind = TYPES[call.in_specs[0].dtype.name]
    if chosen.deterministic or kind == 1 or (kind == 0 and not chosen.tf32):
        return None
    strides = last_strides if channels_last(call) else contiguous_strides
    shapes = [_planar(s.shape) for s in (*call.in_specs[:2], call.out_specs[0])]
    arrays = [(shape, strides(shape)) for shape in shapes]
    try:
        return ConvolutionPlan(cudnn, call.kernel, arrays, kind, _how(call))
    except AcceleratorError:
        return None


def prepare(kernels: Any, call: LibraryCall) -> Runner | None:
    """The runner of a convolution; None for what the host does (other dtypes, empty arrays)."""
    arrays: tuple[Spec, ...] = (call.in_specs[0], call.in_specs[1], call.out_specs[0])
    if any(s.dtype.name not in TYPES or not s.numel for s in arrays):
        return None
    out = call.out_specs[0]
    made: dict[Settings, Convolution] = {}
    planned: dict[Settings, ConvolutionPlan | None] = {}
    last = channels_last(call)
    lay = laid if last else dense
    target = with_last(out) if last else out.with_shape(out.shape)

    def run(first: Array, second: Array, *how: Any) -> Array:
        chosen = Settings.now()
        result: Array = kernels.empty(out)
        first, second = lay(kernels, first), lay(kernels, second)
        written = result if out.strides == target.strides else kernels.empty(target)
        addresses = tuple(kernels.address(a) for a in (first, second, written))
        if chosen not in planned:
            planned[chosen] = _plan(kernels.cudnn(), call, chosen)
        plan = planned[chosen]
        if plan is not None and not (addresses[0] | addresses[1] | addresses[2]) % ALIGNMENT:
            plan.run(kernels.memory, addresses, chosen.benchmark)
        else:
            convolution = made.get(chosen)
            if convolution is None:
                convolution = made[chosen] = Convolution(kernels.cudnn(), call, chosen)
            convolution(kernels.memory, *addresses)
        if written is not result:
            kernels.copy(result, written)
        return result

    return run


MAKERS = dict.fromkeys(("convolution", "convolution_input", "convolution_weight"), prepare)
