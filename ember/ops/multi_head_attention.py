"""`multi_head_attention_forward`: projections, heads and masks around attention."""

import math

from ember.core.registry import F, composite
from ember.dtypes import bool_
from ember.errors import check
from ember.ops.attention import scaled_dot_product_attention
from ember.ops.dropout import dropout
from ember.ops.joining import cat
from ember.ops.likes import zeros_like
from ember.ops.linear import linear, rounds_late, widened
from ember.ops.padding import pad
from ember.source_lines import warn

_NEEDS_MASK = (
    "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
    "`generate_square_subsequent_mask` to create this mask."
)


@composite(export=F)
def _none_or_dtype(input):
    """The dtype of a tensor, None for None."""
    return None if input is None else input.dtype


@composite(export=F)
def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers to add: −inf where a bool mask is True. AssertionError for integers."""
    if mask is None:
        return None
    check(
        mask.dtype is bool_ or mask.is_floating_point(),
        AssertionError,
        f"only bool and floating types of {mask_name} are supported",
    )
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead."
        )
    if mask.is_floating_point():
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


@composite(export=F)
def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the query has a batch; AssertionError for tensors whose ranks do not go together."""
    check(
        query.dim() in (2, 3),
        AssertionError,
        lambda: (
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        ),
    )
    rank, kind = query.dim(), "batched (3-D)" if query.dim() == 3 else "unbatched (2-D)"
    check(
        key.dim() == rank and value.dim() == rank,
        AssertionError,
        lambda: (
            f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        ),
    )
    check(
        key_padding_mask is None or key_padding_mask.dim() == rank - 1,
        AssertionError,
        lambda: (
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but "
            f"found {key_padding_mask.dim()}-D tensor instead"
        ),
    )
    check(
        attn_mask is None or attn_mask.dim() in (2, 3),
        AssertionError,
        lambda: (
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.dim()}-D tensor instead"
        ),
    )
    if rank == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.size(0), key.size(0))
        check(
            tuple(attn_mask.shape) == expected,
            AssertionError,
            lambda: f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}",
        )
    return rank == 3


def _projected(query, key, value, in_proj_weight, separate, bias):
    """The three projections; one product where all three inputs are one tensor."""
    if separate is None and query is key and key is value:
        return linear(query, in_proj_weight, bias).chunk(3, dim=-1)
    if separate is None:
        separate = in_proj_weight.split(query.size(-1))
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases))


def _check_sizes(query, key, value, embed_dim, embed_dim_to_check, num_heads, separate):
    check(
        embed_dim == embed_dim_to_check,
        AssertionError,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}",
    )
    check(
        embed_dim % num_heads == 0,
        AssertionError,
        f"embed_dim {embed_dim} not divisible by num_heads {num_heads}",
    )
    if separate is not None:
        check(
            key.shape[:2] == value.shape[:2],
            AssertionError,
            lambda: (
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            ),
        )
        return
    check(
        key.shape == value.shape,
        AssertionError,
        lambda: f"key shape {key.shape} does not match value shape {value.shape}",
    )


def _mask_of_batch(attn_mask, batch, heads, steps):
    """The mask (1, L, S) or (N·heads, L, S), checked."""
    if attn_mask is None:
        return None
    rank = attn_mask.dim()
    expected = steps if rank == 2 else (batch * heads, *steps)
    check(
        tuple(attn_mask.shape) == expected,
        RuntimeError,
        lambda: (
            f"The shape of the {rank}D attn_mask is {attn_mask.shape}, but should be {expected}."
        ),
    )
    return attn_mask.unsqueeze(0) if rank == 2 else attn_mask


def _given(name, static, rows, size):
    """A key or value that the caller projected."""
    for dim, wanted in ((0, rows), (2, size)):
        check(
            static.size(dim) == wanted,
            AssertionError,
            lambda: f"expecting {name}.size({dim}) of {wanted}, but got {static.size(dim)}",  # noqa: B023
        )
    return static


def _by_head(x, batch, heads, size):
    return x.reshape(x.size(0), batch * heads, size).transpose(0, 1)


def _extended(mask, count):
    return None if mask is None else pad(mask, (0, count))


def _with_padding(attn_mask, key_padding_mask, batch, heads):
    """Both masks as one (N·heads, L or 1, S)."""
    if key_padding_mask is None:
        return attn_mask
    steps = key_padding_mask.size(1)
    padding = key_padding_mask.view(batch, 1, 1, steps).expand(-1, heads, -1, -1)
    padding = padding.reshape(batch * heads, 1, steps)
    return padding if attn_mask is None else attn_mask + padding


@composite(export=F)
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention of several heads with its projections, as `torch.nn.MultiheadAttention` uses it.

    query (L, N, E), key and value (S, N, E), or all without N; masks bool (True hides) or to be
    added. Returns the output (L, N, E) and the weights (N, L, S), or (N, heads, L, S) unless
    averaged, or None. AssertionError or RuntimeError for shapes that do not go together.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    steps, batch, embed_dim = query.shape
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    check(not is_causal or attn_mask is not None, RuntimeError, _NEEDS_MASK)
    hinted = is_causal and key_padding_mask is None and not need_weights
    attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    _check_sizes(query, key, value, embed_dim, embed_dim_to_check, num_heads, separate)
    projected = _projected(query, key, value, in_proj_weight, separate, in_proj_bias)
    attn_mask = _mask_of_batch(attn_mask, batch, num_heads, (steps, key.size(0)))
    extras = ((bias_k, bias_v), (static_k, static_v), add_zero_attn)
    q, k, v, mask = _heads(projected, (attn_mask, key_padding_mask), num_heads, *extras)
    dropout_p = dropout_p if training else 0.0
    attend = _weighted if need_weights else _unweighted
    output, found = attend(q, k, v, mask, dropout_p, hinted, batch)
    output = linear(output, out_proj_weight, out_proj_bias).view(steps, batch, -1)
    if found is not None and average_attn_weights:
        found = found.mean(dim=1)
    if not batched:
        output, found = output.squeeze(1), None if found is None else found.squeeze(0)
    return output, found


def _heads(projected, masks, heads, biases, static, add_zero_attn):
    """Query, key, value (N·heads, steps, size) with what is to be added to them, and one mask."""
    q, k, v = projected
    attn_mask, key_padding_mask = masks
    batch, size = q.size(1), q.size(2) // heads
    rows = batch * heads
    if biases[0] is not None and biases[1] is not None:
        k, v = (cat([x, bias.repeat(1, batch, 1)]) for x, bias in zip((k, v), biases))
        attn_mask, key_padding_mask = _extended(attn_mask, 1), _extended(key_padding_mask, 1)
    q = _by_head(q, batch, heads, size)
    k, v = (
        _by_head(x, batch, heads, size) if given is None else _given(name, given, rows, size)
        for x, given, name in zip((k, v), static, ("static_k", "static_v"))
    )
    if add_zero_attn:
        k, v = (cat([x, x.new_zeros((rows, 1, size))], dim=1) for x in (k, v))
        attn_mask, key_padding_mask = _extended(attn_mask, 1), _extended(key_padding_mask, 1)
    _check_padding(key_padding_mask, batch, k.size(1))
    return q, k, v, _with_padding(attn_mask, key_padding_mask, batch, heads)


def _with_batch(query, key, value):
    """All three with a batch of one; equal arguments stay equal objects."""
    made = {id(x): x.unsqueeze(1) for x in (query, key, value)}
    return tuple(made[id(x)] for x in (query, key, value))


def _check_padding(mask, batch, steps):
    if mask is not None:
        for dim, wanted in ((0, batch), (1, steps)):
            check(
                mask.size(dim) == wanted,
                AssertionError,
                f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {mask.size(dim)}",
            )


def _weighted(q, k, v, mask, dropout_p, hinted, batch):
    """The output (L·N, E) and the weights (N, heads, L, S)."""
    if rounds_late(q):
        found = _weighted(*widened(q, k, v, mask), dropout_p, hinted, batch)
        return tuple(x.to(q.dtype) for x in found)
    scores = (q * math.sqrt(1.0 / q.size(-1))).matmul(k.transpose(-2, -1))
    weights = (scores if mask is None else scores + mask).softmax(-1)
    dropped = dropout(weights, dropout_p) if dropout_p > 0.0 else weights
    output = dropped.matmul(v).transpose(0, 1)
    shape = (batch, -1, *weights.shape[1:])
    return output.reshape(q.size(1) * batch, -1), weights.view(shape)


def _unweighted(q, k, v, mask, dropout_p, hinted, batch):
    """The output (L·N, E); a causal mask that was hinted at is not read."""
    q, k, v = (x.unflatten(0, (batch, -1)) for x in (q, k, v))
    if mask is not None and not hinted:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.unflatten(0, (batch, -1))
    mask = None if hinted else mask
    output = scaled_dot_product_attention(q, k, v, mask, dropout_p, hinted)
    output = output.permute(2, 0, 1, 3)
    return output.reshape(output.size(0) * batch, -1), None
