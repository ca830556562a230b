"""Attention: `scaled_dot_product_attention` (Vaswani et al., arXiv:1706.03762)."""

import math

from ember.backends.base import kernels_of
from ember.backends.library import Library
from ember.core import modes
from ember.core.registry import F, composite, library_op, rowwise
from ember.device import CPU, META
from ember.dtypes import FLOATING, HALF, bool_, float32, float64
from ember.errors import check
from ember.kernel.array import spec_of
from ember.ops.create import ones
from ember.ops.dropout import dropout
from ember.ops.linear import widened
from ember.scalar.primitives import eq, exp, row_max, row_sum, stop, where


@rowwise(accepts=FLOATING)
def masked_softmax(input):
    """exp(x) over its sum; a row of −inf alone, which attends to nothing, gives zeros."""
    top = stop(row_max(input))
    e = exp(input - where(eq(top, -math.inf), 0, top))
    total = row_sum(e)
    return e / where(eq(total, 0), 1, total)


masked_softmax.grad = lambda g, result: (result * (g - row_sum(g * result)),)


def _weights(query, key, attn_mask, is_causal, scale):
    """How much each query attends to each key."""
    scores = (query * scale).matmul(key.transpose(-2, -1))
    if is_causal:
        steps = (query.size(-2), key.size(-2))
        attn_mask = ones(steps, dtype=bool_, device=query.device).tril()
    if attn_mask is None:
        return scores.softmax(-1)
    if attn_mask.dtype is bool_:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    else:
        scores = scores + attn_mask
    return masked_softmax(scores, dim=-1)


def _is_one_op(query, key, value, is_causal, scale):
    """Whether attention runs as one op: outside of transforms, with matrices that go together, in
    single or double precision on the CPU, or where a GPU has a kernel for it."""
    q, k, v = (t._array.spec for t in (query, key, value))
    return (
        q.device is k.device is v.device
        and q.dtype is k.dtype is v.dtype
        and not modes.state.levels
        and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and q.shape[-1] == k.shape[-1]
        and k.shape[-2] == v.shape[-2]
        and q.numel > 0
        and v.numel > 0
        and _has_kernel(q, k, v, is_causal, scale)
    )


def _has_kernel(q, k, v, is_causal, scale):
    if q.device is CPU:
        return q.dtype in (float32, float64)
    return q.device is not META and kernels_of(q.device).attends(q, k, v, is_causal, scale)


def _result_spec(spec, shape):
    """A result: in half precision it lies as (batch, steps, heads, features), as GPUs make it."""
    if spec.dtype not in HALF:
        return spec.with_shape(shape)
    _, heads, steps, features = shape
    strides = (heads * steps * features, features, heads * features, 1)
    return spec_of(shape, strides, spec.dtype, spec.device)


@library_op(Library.attention)
def attention(query, key, value, is_causal, scale):
    """softmax(Q Kᵀ · scale) V as one op, and the log of the sum of each row's exponentials."""
    shape = tuple(query.shape[:-1])
    sums = query.spec.with_shape(shape)
    if query.dtype in HALF:
        sums = sums.with_dtype(float32)
    return _result_spec(query.spec, (*shape, value.size(-1))), sums


@library_op(Library.attention_backward)
def attention_backward(g, query, key, value, out, log_sums, is_causal, scale):
    """The gradients by query, key and value."""
    return tuple(_result_spec(t.spec, tuple(t.shape)) for t in (query, key, value))


def _gradient(g, query, key, value, is_causal, scale, result):
    g = g[0]
    if not (modes.state.grad or modes.state.levels):
        return attention_backward(g, query, key, value, *result, is_causal, scale)
    weights = _weights(query, key, None, is_causal, scale)
    by_weight = g.matmul(value.transpose(-2, -1))
    slope = weights * (by_weight - (weights * by_weight).sum(-1, True)) * scale
    return (
        slope.matmul(key),
        slope.transpose(-2, -1).matmul(query),
        weights.transpose(-2, -1).matmul(g),
    )


attention.grad = _gradient


def _check(query, key, value, attn_mask, is_causal):
    tensors = (query, key, value)
    check(
        all(t.dim() >= 2 for t in tensors),
        RuntimeError,
        lambda: (
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        ),
    )
    check(
        query.dtype is key.dtype is value.dtype,
        RuntimeError,
        lambda: (
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        ),
    )
    check(
        attn_mask is None or not is_causal,
        RuntimeError,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
    )
    check(
        attn_mask is None or attn_mask.dtype in (bool_, query.dtype),
        RuntimeError,
        lambda: (
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {attn_mask.dtype} and  query.dtype: {query.dtype} instead."
        ),
    )


def _repeated_heads(query, key, value):
    """key and value with each head as often as query has heads for it."""
    heads = query.size(-3)
    for name, t in (("key", key), ("value", value)):
        check(
            heads % t.size(-3) == 0,
            RuntimeError,
            lambda: (
                "Number of heads in key and value must divide the number of heads in query: "
                f"{name} has {t.size(-3)}, query {heads}"  # noqa: B023
            ),
        )

    def repeated(t):
        times = heads // t.size(-3)
        if times == 1:
            return t
        shape = (*t.shape[:-2], times, *t.shape[-2:])
        return t.unsqueeze(-3).expand(shape).flatten(-4, -3)

    return repeated(key), repeated(value)


@composite(export=F)
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """softmax(Q Kᵀ · scale + mask) V: (..., L, E), (..., S, E), (..., S, Ev) to (..., L, Ev).

    `scale` is 1/√E by default. A bool mask is True where attention may go, a float one is added;
    `is_causal` lets step i attend to steps up to i. What may attend to nothing gives zeros.
    `enable_gqa` repeats the heads (dim −3) of key and value. RuntimeError for arguments that do not
    go together.

    >>> import ember as torch
    >>> q, k = torch.zeros(1, 1, 2), torch.zeros(1, 2, 2)
    >>> v = torch.tensor([[[1.0], [3.0]]])
    >>> torch.nn.functional.scaled_dot_product_attention(q, k, v)
    tensor([[[2.]]])
    """
    _check(query, key, value, attn_mask, is_causal)
    check(
        0.0 <= dropout_p <= 1.0 or dropout_p < 0,
        RuntimeError,
        f"dropout probability has to be between 0 and 1, but got {dropout_p}",
    )
    if scale is None:
        scale = 1 / math.sqrt(query.size(-1)) if query.size(-1) else 1.0
    if enable_gqa:
        key, value = _repeated_heads(query, key, value)
    how = query, key, value, bool(is_causal), float(scale)
    if attn_mask is None and dropout_p <= 0.0 and _is_one_op(*how):
        return attention(*how)[0]
    if query.dtype in HALF and not query.is_meta:  # scores of half precision are too coarse
        wide = (*widened(query, key, value, attn_mask), dropout_p, is_causal, scale)
        return scaled_dot_product_attention(*wide).to(query.dtype)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return weights.matmul(value)
