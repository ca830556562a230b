"""The Transformer (Vaswani et al., arXiv:1706.03762): encoder, decoder, their layers."""

import copy

import ember.nn.functional as F
import ember.ops as ops
from ember import dtypes
from ember.core.modes import autocast_state, is_grad_enabled
from ember.errors import check
from ember.nn import init
from ember.nn.modules.activation import GELU, ReLU
from ember.nn.modules.attention import MultiheadAttention
from ember.nn.modules.container import ModuleList
from ember.nn.modules.dropout import Dropout
from ember.nn.modules.linear import Linear
from ember.nn.modules.module import Module
from ember.nn.modules.normalization import LayerNorm
from ember.source_lines import warn


def _get_clones(module, count):
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _get_activation_fn(activation):
    functions = {"relu": F.relu, "gelu": F.gelu}
    message = f"activation should be relu/gelu, not {activation}"
    check(activation in functions, RuntimeError, message)
    return functions[activation]


def _relu_or_gelu(activation):
    """1 for relu, 2 for gelu, 0 for others."""
    for number, function, kind in ((1, F.relu, ReLU), (2, F.gelu, GELU)):
        if activation is function or isinstance(activation, kind):
            return number
    return 0


class _TransformerLayer(Module):
    """What the two kinds of layer share: activation, feed-forward network, norms, dropouts."""

    __constants__ = ["norm_first"]
    _attentions = ("self_attn",)

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        blocks = len(self._attentions) + 1
        for i in range(1, blocks + 1):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            setattr(self, f"norm{i}", norm)
        for i in range(1, blocks + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )
        if blocks == 2:  # an encoder's: PyTorch's asks, when it has loaded the module
            self.activation_relu_or_gelu = _relu_or_gelu(self.activation)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout1(x)


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, each with dropout, a skip and a layer norm.

    x = norm1(x + attention(x)), x = norm2(x + linear2(act(linear1 x))); with `norm_first` the norms
    come before the blocks. Shapes (S, N, E), (N, S, E) if `batch_first`, or (S, E).

    >>> import ember as torch
    >>> layer = torch.nn.TransformerEncoderLayer(d_model=8, nhead=2)
    >>> layer(torch.zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        src_key_padding_mask = _mask(
            src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype
        )
        src_mask = _mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's output (`memory`), a feed-forward network.

    Shapes as in `TransformerEncoderLayer`; tgt (T, N, E), memory (S, N, E).

    >>> import ember as torch
    >>> layer = torch.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> layer(torch.zeros(4, 3, 8), torch.zeros(5, 3, 8)).shape
    torch.Size([4, 3, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        across = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *across)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *across))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _mask(mask, name, other, other_name, dtype, check_other=True):
    return F._canonical_mask(
        mask=mask,
        mask_name=name,
        other_type=F._none_or_dtype(other),
        other_name=other_name,
        target_type=dtype,
        check_other=check_other,
    )


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm if given.

    In evaluation without gradients, what stands at padded places is set to zero before the norm, as
    PyTorch's nested tensors make it, unless `enable_nested_tensor=False`.

    >>> import ember as torch
    >>> layer = torch.nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> torch.nn.TransformerEncoder(layer, num_layers=2)(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        reason = _why_padding_stays(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not reason
        if enable_nested_tensor and reason:
            warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"encoder_layer{reason}"
            )
        self.mask_check = mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        padding = src_key_padding_mask
        src_key_padding_mask = _mask(
            src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype
        )
        mask = _mask(mask, "mask", None, "", src.dtype, check_other=False)
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=bool(is_causal),
                src_key_padding_mask=src_key_padding_mask,
            )
        if padding is not None and mask is None and self._clears_padding(src, padding):
            output = output.masked_fill(padding.to(dtypes.bool_).unsqueeze(-1), 0)
        return output if self.norm is None else self.norm(output)

    def _clears_padding(self, src, padding):
        if self.training or not self.use_nested_tensor or src.dim() != 3:
            return False
        if autocast_state(src.device.type)[0]:
            return False
        if is_grad_enabled() and (
            src.requires_grad or any(p.requires_grad for p in self.layers.parameters())
        ):
            return False
        # Only padding at the end of each sequence is left out.
        padding = padding.to(dtypes.bool_)
        return not self.mask_check or not bool((padding[:, :-1] & ~padding[:, 1:]).any())


def _why_padding_stays(layer):
    """What keeps PyTorch from leaving padded places out when it runs such a layer; "" if nothing
    does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return " was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, ".norm_first was True"),
        (
            not attention.batch_first,
            ".self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (
            not attention._qkv_same_embed_dim,
            ".self_attn._qkv_same_embed_dim was not True",
        ),
        (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
        (
            layer.activation not in (F.relu, F.gelu),
            ".activation_relu_or_gelu was not True",
        ),
        (layer.norm1.eps != layer.norm2.eps, ".norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"),
    )
    return next((reason for found, reason in reasons if found), "")


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after the other, and a norm if given.

    >>> import ember as torch
    >>> layer = torch.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> decoder = torch.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(torch.zeros(4, 3, 8), torch.zeros(5, 3, 8)).shape
    torch.Size([4, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder: src (S, N, E) and tgt (T, N, E) to (T, N, E).

    `batch_first` puts N first. Raises RuntimeError where batch or feature sizes differ.

    >>> import ember as torch
    >>> model = torch.nn.Transformer(8, 2, 1, 1, batch_first=True)
    >>> model(torch.zeros(3, 5, 8), torch.zeros(3, 4, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer += (batch_first, norm_first, bias)

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer, **factory)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer, **factory)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batch = 0 if self.batch_first else 1
        check(
            src.dim() != 3 or src.size(batch) == tgt.size(batch),
            RuntimeError,
            "the batch number of src and tgt must be equal",
        )
        check(
            src.size(-1) == self.d_model and tgt.size(-1) == self.d_model,
            RuntimeError,
            "the feature number of src and tgt must be equal to d_model",
        )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """The causal mask of `sz` steps: 0 on and below the diagonal, -inf above it."""
        mask = ops.full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return ops.triu(mask, diagonal=1)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)


__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
