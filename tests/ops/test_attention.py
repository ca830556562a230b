"""Attention: masks, errors, half precision, derivatives."""

import math

import pytest

import ember as torch
import ember.nn.functional as F
from ember.autograd import gradcheck, gradgradcheck

Q, K, V = torch.ones(2, 4, 3, 8), torch.ones(2, 4, 5, 8), torch.ones(2, 4, 5, 6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.scaled_dot_product_attention(Q[0, 0, 0], K, V),
            RuntimeError,
            "to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 4",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q.double(), K, V),
            RuntimeError,
            "Expected query, key, and value to have the same dtype",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q, K, V, torch.ones(3, 5), is_causal=True),
            RuntimeError,
            "Explicit attn_mask should not be set when is_causal=True",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q, K, V, torch.ones(3, 5).long()),
            RuntimeError,
            "Expected attn_mask dtype to be bool or float or to match query dtype",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q, K[:, :3], V[:, :3], enable_gqa=True),
            RuntimeError,
            "Number of heads in key and value must divide the number of heads in",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q, K, V, dropout_p=1.5),
            RuntimeError,
            "dropout probability has to be between 0 and 1",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_may_attend_to_nothing_gives_zeros():
    mask = torch.tensor([[True, False], [False, False]])
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for given in (mask, torch.zeros(2, 2).masked_fill(~mask, -math.inf)):
        found = F.scaled_dot_product_attention(x, x, x, given)
        assert found.tolist() == [[1.0, 2.0], [0.0, 0.0]]
        found.sum().backward()
        assert not x.grad.isnan().any().item()


def test_a_causal_mask_hides_later_steps():
    q = torch.zeros(1, 3, 2)
    v = torch.tensor([[[3.0], [6.0], [9.0]]])
    found = F.scaled_dot_product_attention(q, q, v, is_causal=True)
    assert found.flatten().tolist() == pytest.approx([3.0, 4.5, 6.0])


def test_dropout_drops_weights():
    torch.manual_seed(0)
    found = F.scaled_dot_product_attention(Q, K, V, dropout_p=0.5)
    kept = {round(x * 5 / 2, 4) for x in found.flatten().tolist()}  # of five equal weights, doubled
    assert kept <= {0, 1, 2, 3, 4, 5} and len(kept) > 1


def test_half_precision():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 6, 8) for _ in range(3))
    exact = F.scaled_dot_product_attention(q, k, v)
    for dtype, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        found = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype))
        assert found.dtype == dtype
        assert (found.float() - exact).abs().max().item() < tolerance


def test_derivatives():
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    causal = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    assert gradcheck(causal, inputs)
    assert gradgradcheck(causal, inputs)


def heads(query, key=None, value=None, **named):
    weights = (torch.ones(12, 4), torch.zeros(12), None, None, False, 0.0, torch.ones(4, 4), None)
    key = query if key is None else key
    value = key if value is None else value
    return F.multi_head_attention_forward(query, key, value, 4, 2, *weights, **named)


X = torch.ones(3, 2, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: heads(X[0, 0]), AssertionError, "but received 1-D query tensor"),
        (
            lambda: heads(X, X[:, 0]),
            AssertionError,
            r"For batched \(3-D\) `query`, expected `key` and `value` to be 3-D but found 2-D",
        ),
        (
            lambda: heads(X[..., :3]),
            AssertionError,
            "was expecting embedding dimension of 4, but got 3",
        ),
        (lambda: heads(X, X, X[:2]), AssertionError, "key shape .* does not match value shape"),
        (lambda: heads(X, is_causal=True), RuntimeError, "Need attn_mask if specifying the is_ca"),
        (
            lambda: heads(X, attn_mask=torch.ones(2, 3)),
            RuntimeError,
            r"The shape of the 2D attn_mask is torch.Size\(\[2, 3\]\), but should be \(3, 3\)",
        ),
        (
            lambda: heads(X, attn_mask=torch.ones(3, 3).long()),
            AssertionError,
            "only bool and floating types of attn_mask are supported",
        ),
        (
            lambda: heads(X, key_padding_mask=torch.ones(2, 4).bool()),
            AssertionError,
            r"Expected key_padded_mask.shape\[1\] to be 3, but got 4",
        ),
    ],
)
def test_refused_heads(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_masks_of_different_kinds_are_warned_of():
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is depr"):
        heads(X, key_padding_mask=torch.zeros(2, 3), attn_mask=torch.zeros(3, 3).bool())
