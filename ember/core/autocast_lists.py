"""Which ops autocast runs in half precision, in float32, or in the widest dtype they are given.

`LISTS` has the rules of each device type; LOWER, FLOAT32, PROMOTE and REFUSED are those of GPUs.
The names are those of ops as declared; ops that are in no list run in the dtype they are given.
"""

from __future__ import annotations

from typing import NamedTuple


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Matrix products and what is made of them: fast in half precision, and accumulated wider
LOWER = _names("""
    addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear matmul mm multi_dot mv
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    conv_tbc convolution prelu
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    scaled_dot_product_attention
""")

_LOSSES = _names("""
    binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss
""")

# Functions that overflow or lose too much in half precision, sums of many values, and losses
FLOAT32 = _LOSSES | _names("""
    acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh softplus tan
    cumprod cumsum log_softmax logsumexp prod softmax softmin sum
    group_norm layer_norm norm vector_norm matrix_norm normalize renorm
    cdist cosine_similarity dist pdist polar stft trace
    interpolate upsample upsample_nearest upsample_bilinear
""")

# Ops of several tensors that need one dtype
PROMOTE = _names("""
    addcdiv addcmul atan2 bilinear cat cross dot grid_sample index_put scatter_add stack tensordot
    vdot
""")

REFUSED = {
    "binary_cross_entropy": (
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )
}

CPU_LOWER = LOWER - _names("addmv addr gru gru_cell lstm_cell mv")

CPU_FLOAT32 = _LOSSES | _names("""
    binary_cross_entropy grid_sample cdist polar prod quantile nanquantile stft trace
    view_as_complex
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d fractional_max_pool2d fractional_max_pool3d
    max_pool3d max_unpool2d max_unpool3d
    fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft
    cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf
    householder_product inv inv_ex inverse lstsq lu_solve matrix_rank orgqr ormqr pinverse qr
    solve svd svdvals tensorinv tensorsolve triangular_solve
""")

CPU_PROMOTE = _names("cat index_copy stack")


class Rules(NamedTuple):
    """The lists of one device type."""

    lower: frozenset[str]
    float32: frozenset[str]
    promote: frozenset[str]
    refused: dict[str, str]


# On GPUs cross_entropy takes half precision as it is, and computes and returns single precision
LISTS = {
    "cuda": Rules(LOWER, FLOAT32 - {"cross_entropy"}, PROMOTE, REFUSED),
    "cpu": Rules(CPU_LOWER, CPU_FLOAT32, CPU_PROMOTE, {}),
}
