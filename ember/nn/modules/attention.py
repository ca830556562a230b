"""`MultiheadAttention`, the module over `multi_head_attention_forward`."""

import ember.nn.functional as F
import ember.ops as ops
from ember.errors import check
from ember.nn import init
from ember.nn.modules.linear import NonDynamicallyQuantizableLinear
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention of several heads over one embedding (Vaswani et al., arXiv:1706.03762).

    concat(headᵢ) W_o, headᵢ = attention(Q Wᵢ^q, K Wᵢ^k, V Wᵢ^v). Query (L, N, E), key (S, N, kdim),
    value (S, N, vdim); batch first if `batch_first`; without N if unbatched. Returns the output
    (L, N, E) and, unless `need_weights=False`, the weights (N, L, S), the heads' mean by default.
    Raises AssertionError where `num_heads` does not divide `embed_dim`.

    >>> import ember as torch
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.zeros(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        check(
            embed_dim > 0 and num_heads > 0,
            ValueError,
            f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
            f"num_heads={num_heads} instead",
        )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        check(
            self.head_dim * num_heads == embed_dim,
            AssertionError,
            "embed_dim must be divisible by num_heads",
        )
        self.add_zero_attn = add_zero_attn
        self._add_parameters(bias, add_bias_kv, {"device": device, "dtype": dtype})
        self._reset_parameters()

    def _add_parameters(self, bias, add_bias_kv, factory):
        """The projections of query, key and value: one weight where the sizes agree, else three."""

        def parameter(*shape):
            return Parameter(ops.empty(shape, **factory))

        size = self.embed_dim
        separate = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * size, size)
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, features in zip(separate, (size, self.kdim, self.vdim)):
                setattr(self, name, parameter(size, features))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * size)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(size, size, bias=bias, **factory)
        self.bias_k = parameter(1, 1, size) if add_bias_kv else None
        self.bias_v = parameter(1, 1, size) if add_bias_kv else None

    def _reset_parameters(self):
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name in ("in_proj_weight",) if self._qkv_same_embed_dim else names:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        key_padding_mask = F._canonical_mask(
            mask=key_padding_mask,
            mask_name="key_padding_mask",
            other_type=F._none_or_dtype(attn_mask),
            other_name="attn_mask",
            target_type=query.dtype,
        )
        attn_mask = F._canonical_mask(
            mask=attn_mask,
            mask_name="attn_mask",
            other_type=None,
            other_name="",
            target_type=query.dtype,
            check_other=False,
        )
        swapped = self.batch_first and query.dim() == 3
        if swapped:
            query, key, value = _time_first(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0), weights) if swapped else (output, weights)


def _time_first(query, key, value):
    """All three with their first two dims swapped; equal arguments stay equal objects."""
    swapped = {}
    for tensor in (query, key, value):
        if id(tensor) not in swapped:
            swapped[id(tensor)] = tensor.transpose(1, 0)
    return tuple(swapped[id(tensor)] for tensor in (query, key, value))


__all__ = ["MultiheadAttention"]
