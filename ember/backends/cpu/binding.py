"""Calls bound to arrays that stay where they are, for programs that run many times: what a runner
looks up each time is looked up once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ember.backends.cpu import batch_norm, column_sums, compiled, compiled_attention
from ember.backends.cpu import kernels as eager
from ember.backends.cpu.class_losses import is_plain, plain_gradient, plain_loss
from ember.backends.cpu.matmul import linear, linear_backward, multiply
from ember.backends.cpu.pooling import max_pool, max_pool_backward
from ember.backends.cpu.scattering import index_add
from ember.backends.cpu.sums import wants_blocks
from ember.dtypes import HALF
from ember.kernel.array import Array
from ember.kernel.call import Call, LibraryCall, MapCall, ReduceCall
from ember.kernel.number import Slot
from ember.scalar.evaluate import numpy_function, single_ufunc

Step = Callable[[], Any]


def bind(call: Call, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    """A function that runs a call; None where there is no shorter way than its runner."""
    if isinstance(call, column_sums.SumsCall):
        columns = column_sums.plan(call)
        return None if columns is None else columns.bind(operands, outs)
    if isinstance(call, MapCall):
        return _map(call, operands, outs)
    if isinstance(call, ReduceCall):
        return _reduction(call, operands, outs)
    if isinstance(call, LibraryCall):
        return LIBRARY[call.kernel](call, operands, outs) if call.kernel in LIBRARY else None
    return None


def _map(call: MapCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    ufunc = single_ufunc(call.roots, list(call.names)) if not call.axes else None
    loop = compiled.plan(call, often=ufunc is None)
    if loop is not None:
        return loop.bind(operands, outs)
    if ufunc is None or call.writes or call.compute in HALF:
        return None
    if any(not isinstance(o, Array) or o.spec.dtype is not call.compute for o in operands):
        return None
    out = outs[0]
    try:
        produced = ufunc.resolve_dtypes((*(call.compute.numpy for _ in operands), None))[-1]
    except TypeError:
        return None
    if produced != out.spec.dtype.numpy:
        return None
    return partial(ufunc, *(o.host() for o in operands), out=out.host())


def _reduction(call: ReduceCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    spec, out = call.in_specs[0], call.out_specs[0]
    ufunc, target = numpy_function(call.combine), eager.arithmetic_type(call.accumulate)
    same = spec.dtype is target and out.dtype is target
    if not same or ufunc in (np.logical_and, np.logical_or) or spec.numel == 0:
        return None
    if ufunc is np.add and wants_blocks(spec.shape, call.axes, target.numpy):
        return None
    return partial(
        ufunc.reduce, operands[0].host(), call.axes, out=outs[0].host(), keepdims=call.keepdim
    )


def _product(call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    a, b = (o.host() for o in operands[:2])
    out = outs[0].host()
    if a.dtype.kind not in "fc" or a.dtype.itemsize < 4 or not a.size or not b.size:
        return None
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] == 1:
        return None
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and out.flags.c_contiguous:
        a, out = a.reshape(-1, a.shape[-1]), out.reshape(-1, b.shape[-1])
    if a.ndim == b.ndim == 2 and out.strides[1] == out.itemsize:
        return partial(multiply, a, b, out)
    return partial(np.matmul, a, b, out)


def _affine(call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    x, weight, bias = operands
    if call.upcast and x.spec.dtype in HALF:
        return None
    added = None if bias is None else bias.host()
    return partial(linear, x.host(), weight.host(), added, outs[0].host())


def _affine_backward(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    g, x, weight, biased, needs = operands
    if call.upcast and g.spec.dtype in HALF:
        return None
    made = tuple(out.host() for out in outs)
    return partial(linear_backward, g.host(), x.host(), weight.host(), biased, needs, made)


def _index_add(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    x, dim, index, source, alpha = operands
    out = outs[0].host()
    if x.spec.dtype in HALF or not out.flags.c_contiguous or isinstance(alpha, Slot):
        return None
    return partial(index_add, x.host(), dim, index.host(), source.host(), alpha, out)


def _max_pool(call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step | None:
    given: list[Any] = [o.host() if isinstance(o, Array) else o for o in operands]
    made: Any = tuple(out.host() for out in outs)
    if operands[0].spec.dtype in HALF or not all(m.flags.c_contiguous for m in made):
        return None
    function: Any = max_pool if call.kernel == "max_pool" else max_pool_backward
    return partial(function, *given, made if call.kernel == "max_pool" else made[0])


def _attention(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    query, key, value, is_causal, scale = operands
    q, k, v, out, sums = (o.host() for o in (query, key, value, *outs))
    if not compiled_attention.is_compiled(q, k) or not compiled_attention.are_heads(q, k, v, out):
        return None
    return compiled_attention.forward(q, k, v, is_causal, scale, (out, sums))


def _attention_backward(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    *arrays, is_causal, scale = operands
    g, q, k, v, out, sums = (a.host() for a in arrays)
    dq, dk, dv = (o.host() for o in outs)
    fits = compiled_attention.are_heads(g, q, k, v, out, dq, dk, dv) and sums.flags.c_contiguous
    if not compiled_attention.is_compiled(q, k) or not fits:
        return None
    return compiled_attention.backward(g, q, k, v, out, sums, is_causal, scale, (dq, dk, dv))


def _class_loss(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    given: list[Any] = [o.host() if isinstance(o, Array) else o for o in operands]
    scores, target, weight, ignored, smoothing, reduction = given
    if not _are_rows(scores, target, weight, smoothing, reduction):
        return None
    made: Any = tuple(out.host() for out in outs)
    return plain_loss(scores, target, ignored, reduction, made)


def _class_loss_backward(
    call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> Step | None:
    given: list[Any] = [o.host() if isinstance(o, Array) else o for o in operands]
    g, scores, target, weight, kept, total, ignored, smoothing, reduction = given
    if not _are_rows(scores, target, weight, smoothing, reduction) or not g.flags.c_contiguous:
        return None
    return plain_gradient(g, scores, target, kept, total, ignored, reduction, outs[0].host())


def _are_rows(scores: Any, target: Any, weight: Any, smoothing: float, reduction: str) -> bool:
    dense = scores.flags.c_contiguous and target.flags.c_contiguous and target.dtype == np.int64
    return dense and is_plain(scores, target, weight, smoothing, reduction)


def _batch_norm(call: LibraryCall, operands: tuple[Any, ...], outs: tuple[Array, ...]) -> Step:
    given: list[Any] = [o.host() if isinstance(o, Array) else o for o in operands]
    made: Any = tuple(out.host() for out in outs)
    run: Any = batch_norm.forward if call.kernel == "batch_norm" else batch_norm.backward
    found: Step = run(*given, made)
    return found


LIBRARY = {
    "batch_norm": _batch_norm,
    "batch_norm_backward": _batch_norm,
    "matmul": _product,
    "linear": _affine,
    "linear_backward": _affine_backward,
    "index_add": _index_add,
    "max_pool": _max_pool,
    "max_pool_backward": _max_pool,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "cross_entropy": _class_loss,
    "cross_entropy_backward": _class_loss_backward,
}
