"""Attention with functions of the position."""

import numpy as np
import pytest

import ember as torch
from ember.nn.attention import flex_attention as flex
from ember.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention


def causal(b, h, q, kv):
    return q >= kv


@pytest.fixture
def qkv():
    values = np.random.RandomState(0).randn(3, 2, 2, 8, 4).astype(np.float32)
    return torch.tensor(values).unbind(0)


def test_a_row_without_places_is_zero(qkv):
    mask = create_block_mask(lambda b, h, q, kv: (q >= kv) & (q > 0), None, None, 8, 8)
    out, aux = flex_attention(*qkv, block_mask=mask, return_aux=flex.AuxRequest(True, True))
    torch.testing.assert_close(
        out[0, 0, :2],
        torch.tensor([[0, 0, 0, 0], [-0.8483, -1.1512, -1.3216, 0.4348]]),
        atol=1e-4,
        rtol=0,
    )
    expected = [-np.inf, 0.3299, 1.2615, 1.3258, 1.9924, 2.4398, 2.5074, 3.0193]
    torch.testing.assert_close(aux.lse[0, 0], torch.tensor(expected), atol=1e-4, rtol=0)
    assert aux.max_scores.shape == (2, 2, 8)


def test_scores_with_shared_heads(qkv):
    q, k, v = qkv
    q = q.repeat(1, 2, 1, 1).requires_grad_()
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i > 0), None, None, 8, 8, BLOCK_SIZE=4)
    out = flex_attention(
        q, k, v, lambda s, b, h, i, j: s.tanh() + (i - j) * 0.1 * h, mask, 0.3, True
    )
    assert out.sum().item() == pytest.approx(-30.43026, rel=1e-5)
    assert out.square().sum().item() == pytest.approx(55.2886, rel=1e-5)
    out.sum().backward()
    assert q.grad.isfinite().all() and q.grad[:, :, 0].eq(0).all()


def test_tables_of_heads_and_documents(qkv):
    slopes, document = torch.arange(2.0), torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    same = flex.and_masks(causal, lambda b, h, i, j: document[i] == document[j])
    mask = create_block_mask(same, None, None, 8, 8)
    out = flex_attention(*qkv, lambda s, b, h, i, j: s + slopes[h] * (j - i), mask)
    torch.testing.assert_close(
        out.sum((-1, -2)),
        torch.tensor([[-8.8677, -1.6907], [-10.2567, -7.8572]]),
        atol=2e-4,
        rtol=0,
    )


def test_narrow_types_are_summed_wide(qkv):
    narrow = [t.bfloat16() for t in qkv]
    out, aux = flex_attention(*narrow, return_aux=flex.AuxRequest(lse=True))
    assert (out.dtype, aux.lse.dtype) == (torch.bfloat16, torch.float32)
    assert aux.lse.sum().item() == pytest.approx(79.9533, abs=1e-3)
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        assert flex_attention(*qkv, return_lse=True)[1].shape == (2, 2, 8)


def test_blocks():
    mask = create_block_mask(causal, None, None, 300, 300)
    assert mask.shape == (1, 1, 300, 300) and mask.numel() == 90000
    assert mask.sparsity() == pytest.approx(-9.22667, rel=1e-5)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]]
    assert mask.q_indices.tolist() == [[[[0, 2, 1], [1, 2, 0], [2, 0, 1]]]]
    assert mask.full_q_indices.tolist() == [[[[1, 0, 2], [0, 1, 2], [0, 1, 2]]]]
    assert str(mask) == (
        "BlockMask(shape=(1, 1, 300, 300), sparsity=-9.23%, \n(0, 0)\n██    \n████  \n██████\n)"
    )
    assert "    sparsity=-9.23%,\n    mask_mod=causal\n)" in repr(mask)
    cut = mask._adjust(128, 300)
    assert (cut.shape, round(cut.sparsity(), 2)) == ((1, 1, 128, 300), 57.33)
    assert len(mask.as_tuple()) == 13 and mask.to("cpu").to_dense().equal(mask.to_dense())


def test_parts_of_masks_have_no_function():
    part = create_block_mask(causal, None, None, 300, 300)[:, :, 0:1]
    assert part.q_num_blocks.tolist() == [[[1, 0, 0]]]
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        part.mask_mod(0, 0, 0, 0)


def test_masks_from_blocks():
    counts = torch.tensor([[[1, 2]]], dtype=torch.int32)
    columns = torch.tensor([[[[0, 1], [0, 1]]]], dtype=torch.int32)
    mask = flex.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=4)
    assert (mask.shape, mask.sparsity()) == ((1, 1, 8, 8), 25.0)
    assert mask.q_indices.tolist() == [[[[0, 1], [1, 0]]]]
    assert mask.full_kv_num_blocks is None and mask.mask_mod is flex.noop_mask


def test_masks_from_functions():
    either = flex.or_masks(causal, lambda b, h, i, j: j == 2)
    assert create_mask(either, None, None, 3, 3)[0, 0].int().tolist() == [
        [1, 0, 1],
        [1, 1, 1],
        [1, 1, 1],
    ]
    scores = create_mask(lambda s, b, h, i, j: torch.where(i > j, s, -torch.inf), 2, 3, 2, 2)
    assert scores.shape == (2, 3, 2, 2) and scores.sum() == 6


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda q, k, v: flex_attention(q[0], k, v), NotImplementedError, "must be 4D tensors"),
        (lambda q, k, v: flex_attention(q, k[..., :2], v), ValueError, "E=4 and E=2"),
        (
            lambda q, k, v: flex_attention(torch.cat([q, q], 1), k, v),
            ValueError,
            "Hq=4 and Hkv=2. Try setting enable_gqa=True",
        ),
        (
            lambda q, k, v: flex_attention(
                q, k, v, block_mask=create_block_mask(causal, None, None, 16, 16)
            ),
            ValueError,
            "created for a larger length",
        ),
        (
            lambda q, k, v: flex_attention(
                q, k, v, block_mask=create_block_mask(causal, None, None, 4, 4)
            ),
            ValueError,
            "created for a smaller length",
        ),
        (
            lambda q, k, v: flex_attention(q, k, v, return_lse=True, return_aux=flex.AuxRequest()),
            ValueError,
            "Cannot specify both return_lse and return_aux",
        ),
        (lambda q, k, v: create_mask(3, None, None, 8, 8), TypeError, "3 is not a callable"),
        (
            lambda q, k, v: create_mask(lambda a: 1, None, None, 8, 8),
            AssertionError,
            "Expected 4 or 5 positional args, got 1",
        ),
        (lambda q, k, v: flex.and_masks(3), RuntimeError, "All inputs should be callable"),
    ],
)
def test_errors(qkv, call, kind, message):
    with pytest.raises(kind, match=message):
        call(*qkv)
