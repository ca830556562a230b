"""Attention under vmap: each element's own, with its gradient."""

import ember as torch
from ember.nn import functional as F


def attend(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def test_batches_of_attention_are_loops_of_it():
    torch.manual_seed(0)
    q = torch.randn(3, 2, 4, 16, 8)
    torch.testing.assert_close(torch.vmap(attend)(q), torch.stack([attend(x) for x in q]))
    slope = torch.func.grad(lambda x: attend(x).pow(2).sum())
    slopes = torch.stack([slope(x) for x in q])
    torch.testing.assert_close(torch.vmap(slope)(q), slopes, rtol=1e-5, atol=1e-4)
