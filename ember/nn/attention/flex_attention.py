"""Attention whose scores and mask are functions of the position: `flex_attention`.

The functions are written for one place (batch, head, query, key) and mapped over all of them, so
the whole matrix of scores is computed (Dong et al., "Flex Attention", arXiv:2412.05496).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.dtypes import bool_, float32, float64, int32
from ember.errors import check
from ember.func.mapping import vmap
from ember.nn.attention.block_mask import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    MaskMod,
    block_sizes,
    noop_mask,
    ordered,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
FlexKernelOptions = dict  # hints for PyTorch's GPU kernels; they change no result
_mask_mod_signature, _score_mod_signature = MaskMod, ScoreMod
_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK_SIZE
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30


class AuxRequest(NamedTuple):
    """What `flex_attention` gives besides its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The log of the sum of the exponentials of each row's scores, and their maximum."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


# masks


def _joined(masks: tuple[MaskMod, ...], neutral: bool, join: Any) -> MaskMod:
    check(
        all(callable(mask) for mask in masks),
        RuntimeError,
        f"All inputs should be callable mask_mods: {masks}",
    )

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), neutral, dtype=bool_)
        for mask in masks:
            result = join(result, mask(b, h, q_idx, kv_idx))
        return result  # type: ignore[no-any-return]

    return joined


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod of the places that all of them let through. RuntimeError for no functions.

    >>> from ember.nn.attention.flex_attention import and_masks, create_mask
    >>> near = and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
    >>> create_mask(near, None, None, 3, 3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    return _joined(mask_mods, True, lambda a, b: a & b)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod of the places that any of them lets through."""
    return _joined(mask_mods, False, lambda a, b: a | b)


def _over_places(function: Any, with_score: bool) -> Any:
    """A function of one place, mapped over (B, H, queries, keys)."""
    score = (0,) if with_score else ()
    for dims in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, None, None, None),
    ):
        function = vmap(function, in_dims=(*score, *dims))
    return function


def _places(sizes: tuple[int, ...], device: Any) -> tuple[Tensor, ...]:
    return tuple(ops.arange(size, dtype=int32, device=device) for size in sizes)


def _takes_score(function: Any) -> bool:
    import inspect  # slow to import

    check(callable(function), TypeError, f"{function!r} is not a callable object")
    parameters = inspect.signature(function).parameters.values()
    count = sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    check(count in (4, 5), AssertionError, f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The bool matrix (B or 1, H or 1, Q_LEN, KV_LEN) of the places that count.

    Of a score_mod (five parameters) those whose score is not -inf.

    >>> from ember.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(sizes, device)
    if _takes_score(mod_fn):
        scores = ops.zeros(sizes, device=device)
        return ~ops.isneginf(_over_places(mod_fn, True)(scores, *places))  # type: ignore[no-any-return]
    return _over_places(mod_fn, False)(*places).expand(sizes)  # type: ignore[no-any-return]


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks of the matrix in which `mask_mod(b, h, q, kv)` lets anything through.

    B or H of None: the mask is the same for all. TypeError for no function.

    >>> from ember.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512, "cpu").sparsity()
    37.5
    """
    check(
        not _takes_score(mask_mod),
        AssertionError,
        f"create-block_mask requires a mask_mod function! Got {mask_mod}",
    )
    high, wide = block_sizes(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // high), -(-KV_LEN // wide)
    padded = ops.constant_pad_nd(mask, (0, columns * wide - KV_LEN, 0, rows * high - Q_LEN))
    counts = padded.reshape(*mask.shape[:2], rows, high, columns, wide).sum((-3, -1))
    full: tuple[Tensor | None, Tensor | None] = (None, None)
    present = counts > 0
    if separate_full_blocks:
        filled = counts == high * wide
        full, present = ordered(filled), present & ~filled
    return BlockMask.from_kv_blocks(
        *ordered(present), *full, (high, wide), mask_mod, (Q_LEN, KV_LEN)
    )


def _create_empty_block_mask(query: Tensor, key: Tensor) -> BlockMask:
    one = ops.ones((1, 1, 1), dtype=int32, device=query.device)
    return BlockMask.from_kv_blocks(
        one, one.unsqueeze(-1) * 0, BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE, seq_lengths=(1, 1)
    )


# attention


def _checked(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    check(
        query.ndim == key.ndim == value.ndim == 4,
        NotImplementedError,
        "NYI: query, key, and value must be 4D tensors",
    )
    check(
        query.shape[-1] == key.shape[-1],
        ValueError,
        "Expect query and key/value to have the same embedding dimension but got "
        f"E={query.shape[-1]} and E={key.shape[-1]}.",
    )
    heads, shared = query.shape[1], key.shape[1]
    check(
        enable_gqa or heads == shared,
        ValueError,
        f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
        f"Hkv={shared}. Try setting enable_gqa=True for GQA.",
    )
    check(
        heads % shared == 0,
        ValueError,
        f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} "
        f"and Hkv={shared}.",
    )


def _checked_mask(mask: BlockMask, queries: int, keys: int) -> None:
    if mask.BLOCK_SIZE[0] == _LARGE_SPARSE_BLOCK_SIZE:
        return
    advice = "a smaller length than you're using it for, you likely need to create a new block mask"
    if mask.seq_lengths[0] >= queries and mask.seq_lengths[1] >= keys:
        advice = (
            "a larger length than you're using it for, you can either 1. create a new block mask "
            "with the correct length, or 2. 'adjust' the existing block mask to the correct length "
            "by calling block_mask._adjust(q_len, kv_len)"
        )
    check(
        mask.seq_lengths == (queries, keys),
        ValueError,
        f"block_mask was created for block_mask.shape={mask.shape} but got q_len={queries} and "
        f"kv_len={keys}. As the block mask was created for {advice}.",
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query keyᵀ * scale)) value, where the mask lets through, by default with
    scale = 1/√E; a row without any place is 0.

    query (B, Hq, L, E), key (B, H, S, E), value (B, H, S, Ev) -> (B, Hq, L, Ev); Hq = H unless
    `enable_gqa`. `score_mod(score, b, h, q, kv)` and the mask's `mask_mod(b, h, q, kv)` are of one
    place. With `return_aux` the result is a pair with an AuxOutput. NotImplementedError for other
    ranks, ValueError for sizes that do not fit.

    >>> import ember as torch
    >>> from ember.nn.attention.flex_attention import flex_attention
    >>> x = torch.eye(2).reshape(1, 1, 2, 2)
    >>> flex_attention(x, x, x, score_mod=lambda s, b, h, q, kv: s - 100 * (q != kv)).round()
    tensor([[[[1., 0.],
              [0., 1.]]]])
    """
    _checked(query, key, value, enable_gqa)
    if return_lse:
        check(
            return_aux is None,
            ValueError,
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead.",
        )
        warnings.warn(
            "return_lse is deprecated. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=2,
        )
    if block_mask is not None:
        _checked_mask(block_mask, query.shape[-2], key.shape[-2])
    scores = _scores(query, key, score_mod, block_mask, scale)
    lse = ops.logsumexp(scores, -1)
    weights = ops.exp(scores - ops.where(ops.isneginf(lse), 0, lse).unsqueeze(-1))
    value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    result = weights.to(value.dtype) @ value
    if return_lse:
        return result, lse
    if return_aux is None:
        return result
    highest = scores.amax(-1) if return_aux.max_scores else None
    return result, AuxOutput(lse if return_aux.lse else None, highest)


def _scores(
    query: Tensor,
    key: Tensor,
    score_mod: ScoreMod | None,
    block_mask: BlockMask | None,
    scale: float | None,
) -> Tensor:
    """The scores (B, Hq, L, S), -inf where masked, in float32 or better."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = float64 if query.dtype == float64 else float32
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    places = _places(scores.shape, query.device)
    if score_mod is not None:
        scores = _over_places(score_mod, True)(scores, *places)
    if block_mask is not None and block_mask.mask_mod is not noop_mask:
        kept = _over_places(block_mask.mask_mod, False)(*places)
        scores = ops.where(kept, scores, -math.inf)
    return scores  # type: ignore[no-any-return]
