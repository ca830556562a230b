"""Calls of `torch.nn.functional` with their inputs, for recorded values and live comparison.

In an expression a, b, c ... are the inputs: a shape is filled with waves of a sine and wants
gradients, a list is a tensor of its values. `python tests/ops/functional_cases.py` records the
values anew; it needs PyTorch.
"""

import json
import pathlib
import warnings

RECORDED = pathlib.Path(__file__).with_name("functional_values.json")

LOSSES = {
    "mse": ("F.mse_loss(a, b)", [(3, 4), (3, 4)]),
    "mse sum": ("F.mse_loss(a, b, reduction='sum')", [(3, 4), (3, 4)]),
    "mse weight": ("F.mse_loss(a, b, weight=c)", [(3,), (3,), [1.0, 2.0, 0.5]]),
    "mse broadcast": ("F.mse_loss(a, b, reduction='none')", [(3, 1), (2,)]),
    "l1": ("F.l1_loss(a, b)", [(3, 4), (3, 4)]),
    "l1 weight": ("F.l1_loss(a, b, weight=c)", [(3,), (3,), [1.0, 2.0, 0.5]]),
    "smooth l1": ("F.smooth_l1_loss(a * 2, b, beta=0.7)", [(3, 4), (3, 4)]),
    "smooth l1 zero": ("F.smooth_l1_loss(a, b, beta=0)", [(3, 4), (3, 4)]),
    "huber": ("F.huber_loss(a * 2, b, delta=0.7)", [(3, 4), (3, 4)]),
    "huber weight": ("F.huber_loss(a, b, weight=c)", [(3,), (3,), [1.0, 2.0, 0.5]]),
    "bce": ("F.binary_cross_entropy(a.sigmoid(), b.sigmoid())", [(3, 4), (3, 4)]),
    "bce edges": (
        "F.binary_cross_entropy(a, b, reduction='none')",
        [[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]],
    ),
    "bce weight": ("F.binary_cross_entropy(a.sigmoid(), b, c)", [(2,), [0.0, 1.0], [2.0]]),
    "bce logits": ("F.binary_cross_entropy_with_logits(a * 9, b)", [(4,), [0.0, 1.0, 1.0, 0.0]]),
    "bce logits far": (
        "F.binary_cross_entropy_with_logits(a * 1000, b, reduction='none')",
        [(4,), [0.0, 1.0, 1.0, 0.0]],
    ),
    "bce logits weights": (
        "F.binary_cross_entropy_with_logits(a, b, c, pos_weight=d, reduction='sum')",
        [(2, 2), [[0.0, 1.0], [0.5, 1.0]], [1.0, 3.0], [2.0, 0.5]],
    ),
    "kl": ("F.kl_div(a, b.exp(), reduction='batchmean')", [(2, 3), (2, 3)]),
    "kl log": ("F.kl_div(a, b, reduction='sum', log_target=True)", [(2, 3), (2, 3)]),
    "kl zero target": ("F.kl_div(a, b, reduction='none')", [(3,), [0.0, 0.5, -1.0]]),
    "poisson": ("F.poisson_nll_loss(a, b.exp())", [(3,), (3,)]),
    "poisson full": (
        "F.poisson_nll_loss(a.exp(), b, log_input=False, full=True, reduction='none')",
        [(3,), [0.0, 1.0, 4.0]],
    ),
    "gaussian": ("F.gaussian_nll_loss(a, b, c.exp(), full=True)", [(2, 3), (2, 3), (2, 1)]),
    "gaussian number": ("F.gaussian_nll_loss(a, b, 0.3)", [(2, 3), (2, 3)]),
    "gaussian floor": ("F.gaussian_nll_loss(a, b, c * 0, reduction='sum')", [(2,), (2,), (2,)]),
    "ctc": (
        "F.ctc_loss(a.log_softmax(-1), b, [5, 4], [3, 2])",
        [(5, 2, 4), [[1, 2, 3], [1, 1, 0]]],
    ),
    "ctc joined": (
        "F.ctc_loss(a.log_softmax(-1), b, c, d, blank=3, reduction='none')",
        [(5, 2, 4), [1, 2, 0, 1], [5, 4], [3, 1]],
    ),
    "ctc too long": (
        "F.ctc_loss(a.log_softmax(-1), b, [2, 5], [3, 1], zero_infinity=True, reduction='sum')",
        [(5, 2, 4), [[1, 2, 3], [1, 1, 0]]],
    ),
    "ctc empty target": ("F.ctc_loss(a.log_softmax(-1), b, [5], [0])", [(5, 1, 3), [[1]]]),
}

CLASSES = {
    "nll": ("F.nll_loss(a, b)", [(3, 4), [1, 3, 0]]),
    "nll weight": ("F.nll_loss(a, b, c)", [(3, 4), [1, 3, 0], [1.0, 2.0, 0.5, 3.0]]),
    "nll ignored": ("F.nll_loss(a, b, ignore_index=3, reduction='none')", [(3, 4), [1, 3, 0]]),
    "nll images": ("F.nll_loss(a, b)", [(2, 3, 2), [[0, 1], [2, 2]]]),
    "nll one": ("F.nll_loss(a, b[0])", [(4,), [2]]),
    "cross entropy": ("F.cross_entropy(a * 5, b)", [(3, 4), [1, 3, 0]]),
    "cross entropy all": (
        "F.cross_entropy(a, b, c, label_smoothing=0.2)",
        [(3, 4), [1, -100, 0], [1.0, 2.0, 0.5, 3.0]],
    ),
    "cross entropy sum": (
        "F.cross_entropy(a, b, label_smoothing=0.2, reduction='sum')",
        [(2, 3, 2), [[0, 1], [2, -100]]],
    ),
    "cross entropy none": (
        "F.cross_entropy(a, b, c, label_smoothing=0.2, reduction='none')",
        [(3, 4), [1, 3, 0], [1.0, 2.0, 0.5, 3.0]],
    ),
    "cross entropy of probabilities": ("F.cross_entropy(a, b.softmax(1))", [(3, 4), (3, 4)]),
    "cross entropy of probabilities, all": (
        "F.cross_entropy(a, b.softmax(1), c, label_smoothing=0.1)",
        [(3, 4), (3, 4), [1.0, 2.0, 0.5, 3.0]],
    ),
    "cross entropy of one": ("F.cross_entropy(a, b[0])", [(4,), [2]]),
    "linear cross entropy": (
        "F.linear_cross_entropy(a, b, c, linear_bias=d)",
        [(3, 2), (4, 2), [1, 3, 0], (4,)],
    ),
    "multi margin": ("F.multi_margin_loss(a, b)", [(3, 4), [1, 3, 0]]),
    "multi margin squared": (
        "F.multi_margin_loss(a, b, p=2, margin=0.5, weight=c, reduction='none')",
        [(3, 4), [1, 3, 0], [1.0, 2.0, 0.5, 3.0]],
    ),
    "multilabel margin": (
        "F.multilabel_margin_loss(a, b)",
        [(2, 4), [[3, 0, -1, 1], [1, 2, 0, -1]]],
    ),
    "multilabel soft margin": (
        "F.multilabel_soft_margin_loss(a, b, c)",
        [(2, 3), [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], [1.0, 2.0, 0.5]],
    ),
    "soft margin": ("F.soft_margin_loss(a * 100, b)", [(4,), [1.0, -1.0, 1.0, -1.0]]),
}

DISTANCES = {
    "cosine similarity": ("F.cosine_similarity(a, b)", [(3, 4), (3, 4)]),
    "cosine similarity broadcast": ("F.cosine_similarity(a, b, dim=-1)", [(2, 3, 4), (4,)]),
    "pairwise distance": ("F.pairwise_distance(a, b)", [(3, 4), (3, 4)]),
    "pairwise distance 3": ("F.pairwise_distance(a, b, p=3, keepdim=True)", [(3, 4), (4,)]),
    "pdist": ("F.pdist(a)", [(4, 3)]),
    "pdist 1": ("F.pdist(a, p=1)", [(4, 3)]),
    "cdist": ("torch.cdist(a, b)", [(2, 3, 4), (2, 5, 4)]),
    "cdist matmul": ("torch.cdist(a, b, compute_mode='use_mm_for_euclid_dist')", [(3, 4), (5, 4)]),
    "cdist inf": ("torch.cdist(a, b, p=float('inf'))", [(3, 4), (5, 4)]),
    "triplet": ("F.triplet_margin_loss(a, b, c)", [(3, 4), (3, 4), (3, 4)]),
    "triplet swap": (
        "F.triplet_margin_loss(a, b, c, p=1, swap=True, reduction='none')",
        [(3, 4), (3, 4), (3, 4)],
    ),
    "cosine embedding": (
        "F.cosine_embedding_loss(a, b, c, margin=0.1)",
        [(3, 4), (3, 4), [1, -1, 1]],
    ),
    "margin ranking": (
        "F.margin_ranking_loss(a, b, c, margin=0.3)",
        [(3,), (3,), [1.0, -1.0, 1.0]],
    ),
    "hinge embedding": ("F.hinge_embedding_loss(a, b, margin=0.5)", [(3,), [1.0, -1.0, 0.0]]),
}

NORMALIZATION = {
    "batch norm training": (
        "F.batch_norm(a, None, None, b, c, training=True)",
        [(3, 2, 4), (2,), (2,)],
    ),
    "batch norm eval": (
        "F.batch_norm(a, b, c, d, e)",
        [(3, 2), [0.1, -0.2], [0.5, 2.0], (2,), (2,)],
    ),
    "instance norm": ("F.instance_norm(a, weight=b, bias=c)", [(2, 3, 4), (3,), (3,)]),
    "instance norm eval": (
        "F.instance_norm(a, b, c, use_input_stats=False)",
        [(2, 2, 3), [0.1, -0.2], [0.5, 2.0]],
    ),
    "layer norm": ("F.layer_norm(a, (4,), b, c)", [(2, 3, 4), (4,), (4,)]),
    "layer norm two": ("F.layer_norm(a, [3, 4], eps=0.1)", [(2, 3, 4)]),
    "group norm": ("F.group_norm(a, 2, b, c)", [(2, 4, 3), (4,), (4,)]),
    "group norm plain": ("F.group_norm(a, 3)", [(2, 6)]),
    "rms norm": ("F.rms_norm(a, (4,), b)", [(2, 3, 4), (4,)]),
    "rms norm eps": ("F.rms_norm(a, [3, 4], eps=0.1)", [(2, 3, 4)]),
    "local response norm": ("F.local_response_norm(a, 3, alpha=0.5, k=2.0)", [(2, 4, 3)]),
    "local response norm even": ("F.local_response_norm(a, 2, beta=0.5)", [(1, 4, 2, 3)]),
    "normalize": ("F.normalize(a)", [(3, 4)]),
    "normalize 1": ("F.normalize(a, p=1, dim=(0, 1))", [(3, 4)]),
}

CONVOLUTION = {
    "conv1d": ("F.conv1d(a, b, c)", [(2, 3, 7), (4, 3, 3), (4,)]),
    "conv1d all": (
        "F.conv1d(a, b, c, stride=2, padding=2, dilation=2, groups=2)",
        [(2, 4, 9), (6, 2, 3), (6,)],
    ),
    "conv1d same": ("F.conv1d(a, b, padding='same', dilation=3)", [(1, 2, 7), (3, 2, 4)]),
    "conv2d": ("F.conv2d(a, b, c)", [(2, 3, 5, 6), (4, 3, 3, 2), (4,)]),
    "conv2d all": (
        "F.conv2d(a, b, c, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)",
        [(2, 4, 5, 6), (2, 2, 3, 2), (2,)],
    ),
    "conv2d unbatched": ("F.conv2d(a, b, padding='valid')", [(2, 4, 4), (3, 2, 1, 1)]),
    "conv2d depthwise": ("F.conv2d(a, b, padding=1, groups=3)", [(1, 3, 4, 4), (3, 1, 3, 3)]),
    "conv3d": ("F.conv3d(a, b, c, padding=1, stride=2)", [(1, 2, 3, 4, 3), (2, 2, 2, 3, 2), (2,)]),
    "conv_transpose1d": (
        "F.conv_transpose1d(a, b, c, stride=2, padding=1, output_padding=1)",
        [(2, 3, 4), (3, 2, 3), (2,)],
    ),
    "conv_transpose2d": (
        "F.conv_transpose2d(a, b, c, stride=(1, 2), groups=2, dilation=2)",
        [(1, 4, 3, 3), (4, 1, 2, 2), (2,)],
    ),
    "conv_transpose2d wide": (
        "F.conv_transpose2d(a, b, stride=2, dilation=3, padding=1, output_padding=2)",
        [(1, 2, 3, 3), (2, 2, 2, 2)],
    ),
    "conv_transpose3d": ("F.conv_transpose3d(a, b)", [(2, 2, 2, 2), (2, 1, 2, 1, 2)]),
    "conv_tbc": ("torch.conv_tbc(a, b, c, 1)", [(4, 2, 3), (2, 3, 2), (2,)]),
}

POOLING = {
    "max_pool1d": ("F.max_pool1d(a, 3, 2, 1)", [(2, 3, 7)]),
    "max_pool2d": ("F.max_pool2d(a, (2, 3), (2, 1), (1, 1), (1, 2))", [(1, 2, 6, 7)]),
    "max_pool2d ceil": ("F.max_pool2d(a, 2, ceil_mode=True, return_indices=True)", [(2, 5, 5)]),
    "max_pool3d": ("F.max_pool3d(a, 2, return_indices=True)", [(1, 1, 4, 4, 2)]),
    "avg_pool1d": ("F.avg_pool1d(a, 3, 2, 1, True, False)", [(2, 3, 6)]),
    "avg_pool2d": ("F.avg_pool2d(a, 2, 1, 1)", [(1, 2, 3, 4)]),
    "avg_pool2d divisor": ("F.avg_pool2d(a, 2, divisor_override=3)", [(2, 4, 5)]),
    "avg_pool3d": ("F.avg_pool3d(a, 2, ceil_mode=True)", [(1, 1, 3, 4, 3)]),
    "lp_pool1d": ("F.lp_pool1d(a.exp(), 3.0, 2)", [(1, 2, 5)]),
    "lp_pool2d": ("F.lp_pool2d(a.exp(), 2, (2, 1), 1, True)", [(1, 2, 3, 3)]),
    "lp_pool3d": ("F.lp_pool3d(a.exp(), 2, 2)", [(1, 1, 2, 2, 4)]),
    "adaptive_avg_pool1d": ("F.adaptive_avg_pool1d(a, 3)", [(2, 2, 7)]),
    "adaptive_avg_pool2d": ("F.adaptive_avg_pool2d(a, (None, 2))", [(1, 2, 3, 5)]),
    "adaptive_avg_pool2d one": ("F.adaptive_avg_pool2d(a, 1)", [(2, 2, 3, 3)]),
    "adaptive_avg_pool3d": ("F.adaptive_avg_pool3d(a, 2)", [(1, 1, 3, 2, 5)]),
    "adaptive_max_pool1d": ("F.adaptive_max_pool1d(a, 3)", [(2, 7)]),
    "adaptive_max_pool2d": ("F.adaptive_max_pool2d(a, (2, None), True)", [(1, 2, 5, 3)]),
    "adaptive_max_pool3d": ("F.adaptive_max_pool3d(a, 2)", [(1, 1, 3, 2, 5)]),
    "max_unpool1d": ("F.max_unpool1d(a, b, 2)", [(1, 3), [[1, 2, 5]]]),
    "max_unpool2d": (
        "F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2, output_size=(5, 5))",
        [(1, 2, 5, 5)],
    ),
    "max_unpool3d": (
        "F.max_unpool3d(*F.max_pool3d(a, 2, return_indices=True), 2)",
        [(1, 1, 2, 4, 2)],
    ),
    "fractional_max_pool2d": (
        "F.fractional_max_pool2d(a, 2, (4, 5), return_indices=True, _random_samples=b)",
        [(1, 1, 8, 9), [[[0.2, 0.8]]]],
    ),
    "fractional_max_pool3d": (
        "F.fractional_max_pool3d(a, 2, (3, 2, 4), _random_samples=b)",
        [(1, 1, 5, 6, 7), [[[0.2, 0.8, 0.5]]]],
    ),
}

RESAMPLING = {
    "nearest": ("F.interpolate(a, scale_factor=1.7)", [(1, 2, 5)]),
    "nearest recomputed": (
        "F.interpolate(a, scale_factor=1.7, recompute_scale_factor=True)",
        [(1, 2, 5)],
    ),
    "nearest-exact": ("F.interpolate(a, (3, 7), mode='nearest-exact')", [(1, 2, 5, 4)]),
    "linear": ("F.interpolate(a, 7, mode='linear')", [(1, 2, 5)]),
    "bilinear": ("F.interpolate(a, scale_factor=(1.5, 0.6), mode='bilinear')", [(1, 2, 4, 5)]),
    "bilinear corners": (
        "F.interpolate(a, (7, 3), mode='bilinear', align_corners=True)",
        [(1, 2, 4, 5)],
    ),
    "bicubic": ("F.interpolate(a, (3, 7), mode='bicubic')", [(1, 1, 4, 5)]),
    "trilinear": ("F.interpolate(a, 3, mode='trilinear')", [(1, 1, 2, 4, 2)]),
    "area": ("F.interpolate(a, (2, 3), mode='area')", [(1, 2, 5, 4)]),
    "bilinear filtered": (
        "F.interpolate(a, (3, 2), mode='bilinear', antialias=True)",
        [(1, 1, 7, 6)],
    ),
    "bicubic filtered": (
        "F.interpolate(a, scale_factor=0.6, mode='bicubic', antialias=True)",
        [(1, 1, 7, 6)],
    ),
    "lanczos": ("F.interpolate(a, (3, 8), mode='lanczos', antialias=True)", [(1, 1, 7, 6)]),
    "affine grid": ("F.affine_grid(a, (2, 1, 2, 3), align_corners=False)", [(2, 2, 3)]),
    "affine grid 3d": ("F.affine_grid(a, (1, 1, 2, 3, 2), align_corners=True)", [(1, 3, 4)]),
    **{
        f"grid {mode} {padding} {corners}": (
            f"F.grid_sample(a, b * 1.4, '{mode}', '{padding}', align_corners={corners})",
            [(1, 2, 4, 3), (1, 2, 3, 2)],
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (True, False)
    },
    "grid 3d": (
        "F.grid_sample(a, b * 1.3, padding_mode='reflection', align_corners=False)",
        [(1, 2, 3, 4, 3), (1, 2, 2, 2, 3)],
    ),
}

REARRANGEMENT = {
    "pad": ("F.pad(a, (1, 2, 0, 1), value=0.5)", [(2, 3)]),
    "pad negative": ("F.pad(a, (-1, 2))", [(2, 3)]),
    "pad reflect": ("F.pad(a, (2, 1), 'reflect')", [(2, 4)]),
    "pad replicate": ("F.pad(a, (2, 1, 1, 0), 'replicate')", [(1, 3, 4)]),
    "pad circular": ("F.pad(a, (2, 1, 1, 1, 0, 1), 'circular')", [(1, 2, 3, 4)]),
    "pad circular cut": ("F.pad(a, (-1, 2), 'circular')", [(1, 5)]),
    "unfold": ("F.unfold(a, (2, 3), 2, 1, (1, 2))", [(1, 2, 5, 6)]),
    "fold": ("F.fold(a, (3, 4), 2, padding=1, stride=2)", [(2, 8, 6)]),
    "pixel_shuffle": ("F.pixel_shuffle(a, 2)", [(2, 4, 2, 3)]),
    "pixel_unshuffle": ("F.pixel_unshuffle(a, 2)", [(1, 2, 4)]),
    "channel_shuffle": ("F.channel_shuffle(a, 3)", [(1, 6, 2)]),
}

TABLES = {
    "embedding": ("F.embedding(b, a)", [(4, 2), [[0, 3], [1, 1]]]),
    "embedding padding": ("F.embedding(b, a, padding_idx=-3)", [(4, 2), [[0, 3], [1, 1]]]),
    "embedding frequency": (
        "F.embedding(b, a, scale_grad_by_freq=True)",
        [(4, 2), [[0, 3], [1, 1]]],
    ),
    "embedding max norm": ("F.embedding(b, a * 1, max_norm=0.7)", [(4, 2), [[0, 3], [1, 1]]]),
    "bag sum": ("F.embedding_bag(b, a, mode='sum')", [(4, 2), [[0, 3], [1, 1]]]),
    "bag mean": ("F.embedding_bag(b, a, c)", [(4, 2), [0, 3, 1, 1, 2], [0, 2, 2]]),
    "bag max": ("F.embedding_bag(b, a, c, mode='max')", [(4, 2), [0, 3, 1, 1, 2], [0, 2, 2]]),
    "bag last offset": (
        "F.embedding_bag(b, a, c, mode='sum', include_last_offset=True)",
        [(4, 2), [0, 3, 1, 1, 2], [0, 2, 5]],
    ),
    "bag samples": (
        "F.embedding_bag(b, a, c, mode='sum', per_sample_weights=d)",
        [(4, 2), [0, 3, 1], [0, 2], (3,)],
    ),
    "bag padding": (
        "F.embedding_bag(b, a, padding_idx=1, mode='mean')",
        [(4, 2), [[0, 3, 1], [1, 1, 1]]],
    ),
    "bag padding max": (
        "F.embedding_bag(b, a, c, padding_idx=1, mode='max')",
        [(4, 2), [0, 3, 1, 1], [0, 3]],
    ),
    "one_hot": ("F.one_hot(a, 4)", [[[0, 3], [1, 1]]]),
    "linear": ("F.linear(a, b, c)", [(2, 3, 4), (5, 4), (5,)]),
    "linear vector": ("F.linear(a, b)", [(4,), (4,)]),
    "bilinear": ("F.bilinear(a, b, c, d)", [(2, 3), (2, 4), (2, 3, 4), (2,)]),
    "glu": ("F.glu(a, 0)", [(4, 2)]),
    "prelu": ("F.prelu(a, b)", [(2, 3, 2), (3,)]),
    "rrelu": ("F.rrelu(a)", [(5,)]),
}

ATTENTION = {
    "attention": ("F.scaled_dot_product_attention(a, b, c)", [(2, 3, 4), (2, 5, 4), (2, 5, 2)]),
    "attention causal": (
        "F.scaled_dot_product_attention(a, b, c, is_causal=True, scale=0.7)",
        [(2, 3, 4), (2, 5, 4), (2, 5, 2)],
    ),
    "attention mask": (
        "F.scaled_dot_product_attention(a, b, c, d > 0)",
        [(3, 4), (2, 4), (2, 2), [[1, 0], [0, 0], [1, 1]]],
    ),
    "attention bias": (
        "F.scaled_dot_product_attention(a, b, c, d)",
        [(2, 3, 4), (2, 5, 4), (2, 5, 2), (3, 5)],
    ),
    "attention grouped": (
        "F.scaled_dot_product_attention(a, b, c, enable_gqa=True)",
        [(1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2)],
    ),
    "heads": (
        "F.multi_head_attention_forward(a, a, a, 4, 2, b, c, None, None, 0, 0, d, e, attn_mask=f)",
        [(3, 2, 4), (12, 4), (12,), (4, 4), (4,), (3, 3)],
    ),
    "heads without weights": (
        (
            "F.multi_head_attention_forward(a, b, b, 4, 2, c, None, None, None, True, 0.0, d, "
            "None, need_weights=False, key_padding_mask=e > 0)[0]"
        ),
        [(3, 2, 4), (2, 2, 4), (12, 4), (4, 4), [[0, 1], [0, 0]]],
    ),
    "heads with own weights": (
        (
            "F.multi_head_attention_forward(a, b, c, 4, 2, None, d, e, e * 2, False, 0.0, f, None, "
            "use_separate_proj_weight=True, q_proj_weight=g, k_proj_weight=h, v_proj_weight=i, "
            "average_attn_weights=False)"
        ),
        [(3, 4), (2, 3), (2, 5), (12,), (1, 1, 4), (4, 4), (4, 4), (4, 3), (4, 5)],
    ),
}

RECURRENT = {
    "lstm": (
        "torch.lstm(a, (b, c), [d, e, f, g], True, 1, 0.0, False, False, True)",
        [(2, 3, 2), (1, 2, 2), (1, 2, 2), (8, 2), (8, 2), (8,), (8,)],
    ),
    "gru both ways": (
        "torch.gru(a, b, [c, d, e, d], False, 1, 0.0, False, True, False)",
        [(3, 2, 2), (2, 2, 2), (6, 2), (6, 2), (6, 2)],
    ),
    "rnn_tanh layers": (
        "torch.rnn_tanh(a, b, [c, d, e, e], False, 2, 0.0, False, False, False)",
        [(3, 1, 3), (2, 1, 2), (2, 3), (2, 2), (2, 2)],
    ),
    "rnn_relu packed": (
        "torch.rnn_relu(a, b, c, [d, e], False, 1, 0.0, False, False)",
        [(5, 2), [2, 2, 1], (1, 2, 2), (2, 2), (2, 2)],
    ),
    "gru packed backwards": (
        "torch.gru(a, b, c, [d, e, d, e], False, 1, 0.0, False, True)",
        [(5, 2), [2, 2, 1], (2, 2, 2), (6, 2), (6, 2)],
    ),
    "lstm projection": (
        "torch.lstm(a, (b, c), [d, e, f], False, 1, 0.0, False, False, False)",
        [(3, 2, 2), (1, 2, 1), (1, 2, 2), (8, 2), (8, 1), (1, 2)],
    ),
    "lstm_cell": (
        "torch.lstm_cell(a, (b, c), d, e, f, g)",
        [(2, 3), (2, 2), (2, 2), (8, 3), (8, 2), (8,), (8,)],
    ),
    "gru_cell": ("torch.gru_cell(a, b, c, d, e, f)", [(2, 3), (2, 2), (6, 3), (6, 2), (6,), (6,)]),
    "rnn_tanh_cell": ("torch.rnn_tanh_cell(a, b, c, d)", [(2, 3), (2, 2), (2, 3), (2, 2)]),
    "rnn_relu_cell": ("torch.rnn_relu_cell(a, b, c, d)", [(2, 3), (2, 2), (2, 3), (2, 2)]),
}

FAMILIES = {
    "losses": LOSSES,
    "classes": CLASSES,
    "distances": DISTANCES,
    "normalization": NORMALIZATION,
    "convolution": CONVOLUTION,
    "pooling": POOLING,
    "resampling": RESAMPLING,
    "rearrangement": REARRANGEMENT,
    "tables": TABLES,
    "attention": ATTENTION,
    "recurrent": RECURRENT,
}


def wave(torch, shape, phase, dtype):
    """A tensor of a shape with values of a sine: the same in every framework."""
    count = 1
    for size in shape:
        count *= size
    steps = torch.arange(count, dtype=torch.float64)
    return (steps * 1.7 + phase).sin().to(dtype).reshape(shape)


def inputs_of(torch, inputs, dtype):
    """The inputs as tensors, by letter."""
    named = {}
    for place, (name, value) in enumerate(zip("abcdefghi", inputs)):
        if isinstance(value, tuple):
            named[name] = wave(torch, value, place * 0.9 + 0.2, dtype).requires_grad_()
        else:
            tensor = torch.tensor(value)
            named[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
    return named


def run_case(torch, family, name, dtype_name="float32"):
    """What a case gives: shapes, outputs, and the gradients of the inputs that want one."""
    expression, inputs = FAMILIES[family][name]
    named = inputs_of(torch, inputs, getattr(torch, dtype_name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = eval(expression, {"torch": torch, "F": torch.nn.functional, **named})
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    total = 0
    for place, tensor in enumerate(outputs):
        if tensor.requires_grad:
            weights = wave(torch, tuple(tensor.shape), place + 0.3, tensor.dtype)
            total = total + (tensor * weights).sum()
    if not isinstance(total, int):
        total.backward()
    return {
        "shapes": [list(t.shape) for t in outputs],
        "outputs": [flat(t) for t in outputs],
        "gradients": {
            n: None if t.grad is None else flat(t.grad) for n, t in named.items() if t.requires_grad
        },
    }


def flat(tensor):
    """All elements as Python numbers, rounded to the digits worth keeping."""
    return [float(f"{float(value):.7g}") for value in tensor.detach().reshape(-1).tolist()]


def recorded():
    """The recorded values: {family: {case: result}}."""
    return json.loads(RECORDED.read_text())


if __name__ == "__main__":
    import torch

    parts = []
    for family, cases in FAMILIES.items():
        results = {name: run_case(torch, family, name, "float64") for name in cases}
        lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in results.items()]
        parts.append(json.dumps(family) + ": {\n" + ",\n".join(lines) + "\n}")
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
