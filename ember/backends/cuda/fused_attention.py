"""Attention by cuDNN as one kernel, forward and backward: the scores are never written.

cuDNN composes it of many operations of its graph interface; its frontend package, where it is
installed, writes them down. Queries, keys and values may lie in one array: only the last dim must
be contiguous. Results lie as (batch, steps, heads, features), so that joining the heads copies
nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ember.backends import cudnn as settings
from ember.backends.cuda import attention as switches
from ember.backends.cuda.indexing import dense, spread_to
from ember.errors import AcceleratorError
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import LibraryCall

Runner = Callable[..., Any]
LARGEST_HEAD, GRAIN, ALIGNMENT = 128, 8, 16
HALVES = ("float16", "bfloat16")
_package: list[Any] = []


def package() -> Any:
    """cuDNN's frontend, or None where it or what it needs is not installed."""
    if not _package:
        try:
            _load_compiler()
            with _without_pytorch():
                import cudnn

                datatypes = getattr(cudnn, "datatypes", None)
                getattr(datatypes, "is_torch_available", bool)()  # it remembers the answer
            _package.append(cudnn)
        except (ImportError, OSError, RuntimeError, AssertionError):
            _package.append(None)
    return _package[0]


@contextmanager
def _without_pytorch() -> Iterator[None]:
    """A block in which PyTorch cannot be imported: the frontend would, where it is installed, which
    takes seconds, and needs nothing of it."""
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules["torch"]


def _load_compiler() -> None:
    """Load what cuDNN looks for by name: the run-time compiler with its built-in functions, and
    CUDA's run-time library."""
    from cuda import pathfinder

    compiler = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
    folder = os.path.dirname(compiler)
    for name in sorted(os.listdir(folder)):
        if name.startswith("libnvrtc-builtins"):
            ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(compiler, ctypes.RTLD_GLOBAL)
    pathfinder.load_nvidia_dynamic_lib("cudart")
    pathfinder.load_nvidia_dynamic_lib("cudnn")


class Plan:
    """A graph of cuDNN's that was built for some arrays: they are numbered from 1."""

    def __init__(self, cudnn: Any, graph: Any):
        self.handle, self.graph = cudnn.handle.value, graph
        modes = package().heur_mode
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([modes.A, modes.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.workspace = int(graph.get_workspace_size())

    def run(self, memory: Any, addresses: list[int]) -> None:
        """Compute from some addresses into others."""
        room = memory.allocate(self.workspace) if self.workspace else None
        places = dict(enumerate(addresses, 1))
        self.graph.execute(places, room.address if room else 0, handle=self.handle)


class Attention:
    """Attention of arrays of given specs."""

    def __init__(self, cudnn: Any, query: Spec, key: Spec, value: Spec, causal: bool, scale: float):
        self.cudnn, self.specs, self.how = cudnn, (query, key, value), (causal, scale)
        batch, heads, steps = query.shape[:3]
        self.stats = (batch, heads, steps, 1), (heads * steps, steps, 1, 1)
        self.out = (*query.shape[:3], value.shape[-1])
        self.forward = self._forward()
        self.backwards: dict[Any, Plan] = {}

    def _graph(self) -> Any:
        names = package().data_type
        return package().pygraph(
            io_data_type=self._type(),
            intermediate_data_type=names.FLOAT,
            compute_data_type=names.FLOAT,
            handle=self.cudnn.handle.value,
        )

    def _type(self) -> Any:
        names = package().data_type
        return names.HALF if self.specs[0].dtype.name == "float16" else names.BFLOAT16

    def _tensor(self, graph: Any, number: int, shape: Any, strides: Any, wide: bool = False) -> Any:
        kind = package().data_type.FLOAT if wide else self._type()
        made = graph.tensor(
            name=f"t{number}", dim=list(shape), stride=list(strides), data_type=kind
        )
        made.set_uid(number)
        return made

    def _result(self, made: Any, number: int, shape: Any, strides: Any) -> None:
        made.set_output(True).set_dim(list(shape)).set_stride(list(strides)).set_uid(number)

    def _forward(self) -> Plan:
        graph, (causal, scale) = self._graph(), self.how
        q, k, v = (self._tensor(graph, i, s.shape, s.strides) for i, s in enumerate(self.specs, 1))
        out, stats = graph.sdpa(
            name="attention", q=q, k=k, v=v, attn_scale=scale, use_causal_mask=causal,
            generate_stats=True,
        )  # fmt: skip
        self._result(out, 4, self.out, heads_last(self.out))
        self._result(stats, 5, *self.stats)
        stats.set_data_type(package().data_type.FLOAT)
        return Plan(self.cudnn, graph)

    def backward(self, slope: tuple[int, ...]) -> Plan:
        """The plan of the gradients, for a gradient of the result with these strides."""
        key = slope, settings.deterministic
        found = self.backwards.get(key)
        if found is not None:
            return found
        graph, (causal, scale) = self._graph(), self.how
        q, k, v = (self._tensor(graph, i, s.shape, s.strides) for i, s in enumerate(self.specs, 1))
        out = self._tensor(graph, 4, self.out, heads_last(self.out))
        given = self._tensor(graph, 5, self.out, slope)
        stats = self._tensor(graph, 6, *self.stats, wide=True)
        made = graph.sdpa_backward(
            name="attention_backward", q=q, k=k, v=v, o=out, dO=given, stats=stats,
            attn_scale=scale, use_causal_mask=causal,
            use_deterministic_algorithm=settings.deterministic,
        )  # fmt: skip
        for number, (result, spec) in enumerate(zip(made, self.specs, strict=True), 7):
            self._result(result, number, spec.shape, heads_last(spec.shape))
        plan = self.backwards[key] = Plan(self.cudnn, graph)
        return plan


def heads_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of (batch, heads, steps, features) that lie as (batch, steps, heads,
    features)."""
    _, heads, steps, features = shape
    return (heads * steps * features, features, heads * features, 1)


def is_fit(spec: Spec) -> bool:
    """Whether cuDNN reads an array as it lies."""
    pairs = zip(spec.shape[:-1], spec.strides[:-1], strict=True)
    return spec.strides[-1] == 1 and all(n == 1 or (s > 0 and not s % GRAIN) for n, s in pairs)


def attends(kernels: Any, query: Spec, key: Spec, value: Spec, causal: bool, scale: float) -> bool:
    """Whether cuDNN computes the attention of these."""
    features = (query.shape[-1], value.shape[-1])
    if query.ndim != 4 or query.dtype.name not in HALVES:
        return False
    if any(n > LARGEST_HEAD or n % GRAIN for n in features):
        return False
    if not (switches.cudnn_sdp_enabled() or switches.flash_sdp_enabled()) or package() is None:
        return False
    specs = (s if is_fit(s) else s.with_shape(s.shape) for s in (query, key, value))
    return _plan(kernels, (*specs, causal, scale)) is not None


def _plan(kernels: Any, key: tuple[Any, ...]) -> Attention | None:
    """The plan of attention as it is asked for, None if cuDNN has none; kept."""
    if key not in kernels.attentions:
        try:
            kernels.attentions[key] = Attention(kernels.cudnn(), *key)
        except RuntimeError:  # of the package, and AcceleratorError
            kernels.attentions[key] = None
    found: Attention | None = kernels.attentions[key]
    return found


def _planned(kernels: Any, arrays: list[Array], causal: bool, scale: float) -> Attention:
    found = _plan(kernels, (*(a.spec for a in arrays), causal, scale))
    if found is None:
        raise AcceleratorError("CUDA error: cuDNN has no plan for an attention")
    return found


def _fitting(kernels: Any, array: Array) -> Array:
    """The array, or a contiguous copy, as cuDNN can read it."""
    if is_fit(array.spec) and not kernels.address(array) % ALIGNMENT:
        return array
    return spread_to(kernels, array, array.spec.shape)


def _with_heads_last(kernels: Any, array: Array) -> Array:
    spec, strides = array.spec, heads_last(array.spec.shape)
    if spec.strides == strides and not kernels.address(array) % ALIGNMENT:
        return array
    made: Array = kernels.empty(spec_of(spec.shape, strides, spec.dtype, spec.device))
    kernels.copy(made, array)
    return made


def forward(kernels: Any, call: LibraryCall) -> Runner | None:
    """Attention, and the logs of the sums of its rows' exponentials."""
    out, stats = call.out_specs
    if out.dtype.name not in HALVES:
        return None

    def run(query: Array, key: Array, value: Array, causal: bool, scale: float) -> Any:
        arrays = [_fitting(kernels, a) for a in (query, key, value)]
        plan = _planned(kernels, arrays, causal, scale)
        results = kernels.empty(out), kernels.empty(stats)
        addresses = [kernels.address(a) for a in (*arrays, *results)]
        plan.forward.run(kernels.memory, addresses)
        return results

    return run


def backward(kernels: Any, call: LibraryCall) -> Runner | None:
    """The gradients by query, key and value."""
    specs = call.out_specs
    if specs[0].dtype.name not in HALVES:
        return None

    def run(
        slope: Array, query: Array, key: Array, value: Array, out: Array, stats: Array,
        causal: bool, scale: float,
    ) -> Any:  # fmt: skip
        arrays = [_fitting(kernels, a) for a in (query, key, value)]
        plan = _planned(kernels, arrays, causal, scale)
        slope, out = _fitting(kernels, slope), _with_heads_last(kernels, out)
        results = [kernels.empty(s) for s in specs]
        given = (*arrays, out, slope, dense(kernels, stats), *results)
        addresses = [kernels.address(a) for a in given]
        plan.backward(slope.spec.strides).run(kernels.memory, addresses)
        return tuple(results)

    return run


MAKERS = {"attention": forward, "attention_backward": backward}
