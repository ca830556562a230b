"""The ops of whole layers that archives call: attention and encoder layers in one, packed
sequences."""

from __future__ import annotations

from typing import Any

from ember.nn import functional as F
from ember.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def pack(input: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
    """A padded batch without its padding, and the sizes of its steps."""
    packed = pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes


def unpack(
    data: Any, batch_sizes: Any, batch_first: bool, padding: float, total: int
) -> tuple[Any, Any]:
    """The padded batch of a packed one, and the lengths; a total <= 0 is that of the longest."""
    sequence = PackedSequence(data, batch_sizes)
    return pad_packed_sequence(sequence, batch_first, padding, total if total > 0 else None)


def _allowed(mask: Any, mask_type: int | None) -> Any:
    """Where attention may look: a mask of (L, L), of padding (N, L), or of (N, H, L, L)."""
    if mask is None:
        return None
    allowed = ~mask.bool()
    return allowed[:, None, None, :] if mask_type == 1 else allowed


def attention(
    query: Any, key: Any, value: Any, width: int, heads: int, in_weight: Any, in_bias: Any,
    out_weight: Any, out_bias: Any, mask: Any = None, need_weights: bool = True,
    average: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Multi-head attention of batches (N, L, E), and its weights if they are wanted."""
    parts = [
        F.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2)
        for x, w, b in zip((query, key, value), in_weight.chunk(3), in_bias.chunk(3), strict=True)
    ]
    allowed = _allowed(mask, mask_type)
    scores = parts[0] @ parts[1].transpose(-2, -1) / (width // heads) ** 0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    weights = scores.softmax(-1)
    joined = (weights @ parts[2]).transpose(1, 2).flatten(2)
    shown = (weights.mean(1) if average else weights) if need_weights else None
    return F.linear(joined, out_weight, out_bias), shown


def encoder_layer(
    x: Any, width: int, heads: int, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any,
    gelu: bool, norm_first: bool, eps: float, norm1_weight: Any, norm1_bias: Any,
    norm2_weight: Any, norm2_bias: Any, weight1: Any, bias1: Any, weight2: Any, bias2: Any,
    mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A transformer encoder layer of batches (N, L, E), in evaluation."""
    act = F.gelu if gelu else F.relu

    def attended(x: Any) -> Any:
        given = (in_weight, in_bias, out_weight, out_bias, mask, False, True, mask_type)
        return attention(x, x, x, width, heads, *given)[0]

    def forward(x: Any) -> Any:
        return F.linear(act(F.linear(x, weight1, bias1)), weight2, bias2)

    def norm1(x: Any) -> Any:
        return F.layer_norm(x, (width,), norm1_weight, norm1_bias, eps)

    def norm2(x: Any) -> Any:
        return F.layer_norm(x, (width,), norm2_weight, norm2_bias, eps)

    if norm_first:
        x = x + attended(norm1(x))
        return x + forward(norm2(x))
    x = norm1(x + attended(x))
    return norm2(x + forward(x))


LAYER_OPS = {
    "_pack_padded_sequence": pack,
    "_pad_packed_sequence": unpack,
    "_native_multi_head_attention": attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
    # Whether a padded batch could become a nested tensor, of which there are none here.
    "_nested_tensor_from_mask_left_aligned": lambda x, mask: False,
}
