"""Library kernels of GPUs: products by cuBLAS. `prepare` gives None for what the host does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ember.backends import cuda as settings
from ember.backends.cuda import (
    batch_norm,
    class_losses,
    cudnn,
    fused_attention,
    indexing,
    through_cupy,
    windows,
)
from ember.errors import AcceleratorError
from ember.kernel.array import Array, Spec, contiguous_spec, spec_of
from ember.kernel.call import LibraryCall
from ember.layout import contiguous_strides

FLOAT, DOUBLE, HALF, BFLOAT, COMPLEX, DOUBLE_COMPLEX = 0, 1, 2, 14, 4, 5  # cudaDataType
TYPES = {
    "float32": FLOAT,
    "float64": DOUBLE,
    "float16": HALF,
    "bfloat16": BFLOAT,
    "complex64": COMPLEX,
    "complex128": DOUBLE_COMPLEX,
}
COMPUTE_FLOAT, COMPUTE_DOUBLE, COMPUTE_TF32 = 68, 70, 77  # cublasComputeType_t
Runner = Callable[..., Any]


class Blas:
    """cuBLAS for one GPU's stream."""

    def __init__(self, driver: Any, index: int):
        from cuda import pathfinder

        found = pathfinder.load_nvidia_dynamic_lib("cublas")
        self.library = ctypes.CDLL(found.abs_path)
        self.driver, self.index = driver, index
        self.handle = ctypes.c_void_p()  # the current stream's
        self._handles: dict[int, int | None] = {}  # each stream's, with a workspace of its own
        self._follow(int(driver.use(index)))
        driver.followers.setdefault(index, []).append(self._follow)
        self.numbers: dict[int, Any] = {
            COMPUTE_FLOAT: ((ctypes.c_float * 2)(1, 0), (ctypes.c_float * 2)(0, 0)),
            COMPUTE_DOUBLE: ((ctypes.c_double * 2)(1, 0), (ctypes.c_double * 2)(0, 0)),
        }
        self.numbers[COMPUTE_TF32] = self.numbers[COMPUTE_FLOAT]

    def _follow(self, stream: int) -> None:
        """Let products go to another stream."""
        if stream not in self._handles:
            made = ctypes.c_void_p()
            self._check(self.library.cublasCreate_v2(ctypes.byref(made)), "cublasCreate")
            self._check(
                self.library.cublasSetStream_v2(made, ctypes.c_void_p(stream)), "cublasSetStream"
            )
            self._handles[stream] = made.value
        self.handle.value = self._handles[stream]

    def _check(self, status: int, what: str) -> None:
        if status:
            raise AcceleratorError(f"CUDA error: cuBLAS status {status} in {what}")

    def product(
        self, sizes: tuple[int, ...], dtype: str, first: Any, second: Any
    ) -> Callable[[int, int, int], None]:
        """A function of addresses for out = A B in row-major order: sizes (batch, M, N, K);
        operands (transposed, leading stride, batch stride)."""
        batch, m, n, k = sizes
        kind = TYPES[dtype]
        compute = COMPUTE_DOUBLE if kind in (DOUBLE, DOUBLE_COMPLEX) else COMPUTE_FLOAT
        if dtype == "float32" and settings.matmul.allow_tf32:
            compute = COMPUTE_TF32
        one, zero = self.numbers[compute]
        long, a, b, c = ctypes.c_longlong, *(ctypes.c_void_p() for _ in range(3))
        given: tuple[Any, ...] = (
            self.handle, second[0], first[0], n, m, k, ctypes.byref(one), b, kind, second[1],
            long(second[2]), a, kind, first[1], long(first[2]), ctypes.byref(zero), c, kind, n,
            long(m * n), batch, compute, -1,
        )  # fmt: skip
        call, lock = self.library.cublasGemmStridedBatchedEx, self.driver.lock
        if batch == 1:  # quicker to call
            call = self.library.cublasGemmEx
            given = (
                self.handle, second[0], first[0], n, m, k, ctypes.byref(one), b, kind, second[1],
                a, kind, first[1], ctypes.byref(zero), c, kind, n, compute, -1,
            )  # fmt: skip

        def run(left: int, right: int, out: int) -> None:
            self.driver.use(self.index)
            with lock:
                a.value, b.value, c.value = left, right, out
                status = call(*given)
            if status:
                self._check(status, "cublasGemmStridedBatchedEx")

        return run


def prepare(kernels: Any, call: LibraryCall) -> Runner | None:
    """The runner of a library call on a GPU; None for one that the host does."""
    maker = MAKERS.get(call.kernel)
    if maker is None:
        return through_cupy.prepare(kernels, call)
    if call.kernel in ANY_ORDER or all(s.contiguous for s in call.out_specs):
        return maker(kernels, call)
    return _turned(kernels, call, maker)


def _turned(kernels: Any, call: LibraryCall, maker: Any) -> Runner | None:
    """A kernel that writes in row-major order, with its results copied into the order asked for."""
    plain = tuple(contiguous_spec(s.shape, s.dtype, s.device) for s in call.out_specs)
    inner: Runner | None = maker(kernels, call.with_specs(call.in_specs, plain))
    if inner is None:
        return None
    found = inner

    def run(*operands: Any) -> Any:
        made = found(*operands)
        results = []
        for spec, array in zip(call.out_specs, made if len(plain) > 1 else (made,), strict=True):
            results.append(kernels.empty(spec))
            kernels.copy(results[-1], array)
        return tuple(results) if len(plain) > 1 else results[0]

    return run


def _matmul(kernels: Any, call: LibraryCall) -> Runner | None:
    first, second = call.in_specs[0], call.in_specs[1]
    out = call.out_specs[0]
    if first.dtype.name not in TYPES or min(first.ndim, second.ndim) < 2 or not out.numel:
        return None
    if not first.shape[-1] or first.dtype is not second.dtype or not out.contiguous:
        return None
    m, n, k = first.shape[-2], second.shape[-1], first.shape[-1]
    batch = out.shape[:-2]
    if second.ndim == 2 and first.contiguous:  # one large product
        m, batch = first.numel // k, ()
        a = _Matrix(spec_of((m, k), (k, 1), first.dtype, first.device), batch)
    else:
        a = _Matrix(first, batch)
    b = _Matrix(second, batch)
    count = 1
    for size in batch:
        count *= size
    sizes, dtype = (count, m, n, k), first.dtype.name
    products: dict[bool, Callable[[int, int, int], None]] = {}

    def run(x: Array, y: Array) -> Array:
        made: Array = kernels.empty(out)
        tf32 = settings.matmul.allow_tf32
        product = products.get(tf32)
        if product is None:
            how = a.geometry, b.geometry
            product = products[tf32] = kernels.blas().product(sizes, dtype, *how)
        left, right = a.operand(kernels, x), b.operand(kernels, y)
        product(kernels.address(left), kernels.address(right), kernels.address(made))
        return made

    return run


class _Matrix:
    """How an operand is handed to BLAS: as it lies, or as a contiguous copy."""

    def __init__(self, spec: Spec, batch: tuple[int, ...]):
        self.shape = (*batch, *spec.shape[-2:])
        rows, columns = spec.shape[-2:]
        down, right = spec.strides[-2:]
        if right == 1 and down >= max(columns, 1):
            self.turned, self.leading = 0, down
        elif down == 1 and right >= max(rows, 1):
            self.turned, self.leading = 1, right
        elif rows == 1 and right == 1:
            self.turned, self.leading = 0, max(columns, 1)
        elif columns == 1 and down == 1:
            self.turned, self.leading = 1, max(rows, 1)
        else:
            self.turned, self.leading = -1, columns
        self.step = self._batch_stride(spec, batch)
        self.copied = self.turned < 0 or self.step is None
        if self.copied:
            self.turned, self.leading, self.step = 0, columns, rows * columns
            self.dense = spec_of(
                self.shape, contiguous_strides(self.shape), spec.dtype, spec.device
            )

    def _batch_stride(self, spec: Spec, batch: tuple[int, ...]) -> int | None:
        """The one stride from matrix to matrix; None where there is no such."""
        own = (1,) * (len(batch) - (spec.ndim - 2)) + spec.shape[:-2]
        strides = (0,) * (len(batch) - (spec.ndim - 2)) + spec.strides[:-2]
        step, count = None, 1
        for size, have, stride in zip(
            reversed(batch), reversed(own), reversed(strides), strict=True
        ):
            if size == 1:
                continue
            stride = 0 if have == 1 else stride
            if step is None:
                step = stride
            elif stride != step * count:
                return None
            count *= size
        return step or 0

    @property
    def geometry(self) -> tuple[int, int, int]:
        """Transposed, leading stride, batch stride."""
        assert self.step is not None
        return self.turned, self.leading, self.step

    def operand(self, kernels: Any, array: Array) -> Array:
        """The array, or a copy that lies as BLAS wants it."""
        if self.copied:
            dense: Array = kernels.empty(self.dense)
            kernels.copy(dense, array)
            return dense
        return array


# What writes into results of any order
ANY_ORDER = {*cudnn.MAKERS, *fused_attention.MAKERS, *batch_norm.MAKERS, "concatenate"}
MAKERS: dict[str, Callable[[Any, LibraryCall], Runner | None]] = {
    "matmul": _matmul,
    **indexing.MAKERS,
    **windows.MAKERS,
    **cudnn.MAKERS,
    **fused_attention.MAKERS,
    **class_losses.MAKERS,
    **batch_norm.MAKERS,
}
