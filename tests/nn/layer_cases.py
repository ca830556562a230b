"""Layers with their arguments and inputs, for the recorded values and for live comparison.

An input is a shape, filled with waves of a sine, or a list of values.
`python tests/nn/layer_cases.py` records the values anew; it needs PyTorch.
"""

import json
import pathlib

RECORDED = pathlib.Path(__file__).with_name("layer_values.json")

CASES = {
    # linear
    "Linear": ("nn.Linear(3, 2)", [(4, 3)]),
    "Linear without bias": ("nn.Linear(3, 2, bias=False)", [(2, 4, 3)]),
    "Bilinear": ("nn.Bilinear(2, 3, 2)", [(4, 2), (4, 3)]),
    "Identity": ("nn.Identity(1, a=2)", [(2,)]),
    # activations
    "Threshold": ("nn.Threshold(0.1, 20)", [(2, 3)]),
    "ReLU": ("nn.ReLU()", [(2, 3)]),
    "ReLU in place": ("nn.ReLU(inplace=True)", [(2, 3)]),
    "RReLU": ("nn.RReLU(0.1, 0.3).eval()", [(2, 3)]),
    "Hardtanh": ("nn.Hardtanh(-0.5, 0.25)", [(2, 3)]),
    "ReLU6": ("nn.ReLU6(True)", [(2, 3)]),
    "Sigmoid": ("nn.Sigmoid()", [(2, 3)]),
    "Hardsigmoid": ("nn.Hardsigmoid()", [(2, 3)]),
    "Tanh": ("nn.Tanh()", [(2, 3)]),
    "SiLU": ("nn.SiLU()", [(2, 3)]),
    "Mish": ("nn.Mish()", [(2, 3)]),
    "Hardswish": ("nn.Hardswish()", [(2, 3)]),
    "ELU": ("nn.ELU(0.7)", [(2, 3)]),
    "CELU": ("nn.CELU(0.7)", [(2, 3)]),
    "SELU": ("nn.SELU()", [(2, 3)]),
    "GLU": ("nn.GLU(1)", [(2, 4)]),
    "GELU": ("nn.GELU()", [(2, 3)]),
    "GELU tanh": ("nn.GELU('tanh')", [(2, 3)]),
    "Hardshrink": ("nn.Hardshrink(0.3)", [(2, 3)]),
    "LeakyReLU": ("nn.LeakyReLU(0.2)", [(2, 3)]),
    "LogSigmoid": ("nn.LogSigmoid()", [(2, 3)]),
    "Softplus": ("nn.Softplus(2, 1)", [(2, 3)]),
    "Softshrink": ("nn.Softshrink(0.3)", [(2, 3)]),
    "PReLU": ("nn.PReLU(3)", [(2, 3)]),
    "Softsign": ("nn.Softsign()", [(2, 3)]),
    "Tanhshrink": ("nn.Tanhshrink()", [(2, 3)]),
    "Softmin": ("nn.Softmin(1)", [(2, 3)]),
    "Softmax": ("nn.Softmax(0)", [(2, 3)]),
    "Softmax2d": ("nn.Softmax2d()", [(1, 3, 2, 1)]),
    "LogSoftmax": ("nn.LogSoftmax(1)", [(2, 3)]),
    # normalization
    "BatchNorm1d": ("nn.BatchNorm1d(3)", [(4, 3)]),
    "BatchNorm1d eval": ("nn.BatchNorm1d(3).eval()", [(2, 3, 2)]),
    "BatchNorm1d average": ("nn.BatchNorm1d(3, momentum=None)", [(4, 3)]),
    "BatchNorm2d": ("nn.BatchNorm2d(2, affine=False)", [(2, 2, 2, 3)]),
    "BatchNorm3d": ("nn.BatchNorm3d(2, track_running_stats=False)", [(2, 2, 1, 2, 2)]),
    "SyncBatchNorm": ("nn.SyncBatchNorm(2).eval()", [(2, 2, 3)]),
    "InstanceNorm1d": ("nn.InstanceNorm1d(2, affine=True)", [(2, 2, 3)]),
    "InstanceNorm1d unbatched": ("nn.InstanceNorm1d(2)", [(2, 3)]),
    "InstanceNorm2d": ("nn.InstanceNorm2d(2, track_running_stats=True)", [(2, 2, 2, 2)]),
    "InstanceNorm3d": ("nn.InstanceNorm3d(2)", [(1, 2, 2, 1, 2)]),
    "LayerNorm": ("nn.LayerNorm([2, 3])", [(2, 2, 3)]),
    "LayerNorm plain": ("nn.LayerNorm(3, elementwise_affine=False)", [(2, 3)]),
    "GroupNorm": ("nn.GroupNorm(2, 4)", [(2, 4, 2)]),
    "LocalResponseNorm": ("nn.LocalResponseNorm(3, alpha=0.1)", [(1, 4, 2)]),
    "RMSNorm": ("nn.RMSNorm(3)", [(2, 3)]),
    # dropout, where no chance is left
    "Dropout eval": ("nn.Dropout(0.7).eval()", [(2, 3)]),
    "Dropout all": ("nn.Dropout(1.0)", [(2, 3)]),
    "Dropout1d none": ("nn.Dropout1d(0.0)", [(1, 2, 3)]),
    "Dropout2d eval": ("nn.Dropout2d(0.3).eval()", [(1, 2, 1, 3)]),
    "Dropout3d eval": ("nn.Dropout3d(0.3).eval()", [(1, 2, 1, 1, 3)]),
    "AlphaDropout eval": ("nn.AlphaDropout(0.3).eval()", [(2, 3)]),
    "FeatureAlphaDropout eval": ("nn.FeatureAlphaDropout(0.3).eval()", [(2, 3)]),
    # lookup
    "Embedding": ("nn.Embedding(4, 2, padding_idx=1)", [[[0, 1], [3, 3]]]),
    "EmbeddingBag": ("nn.EmbeddingBag(4, 2)", [[[0, 1], [3, 3]]]),
    "EmbeddingBag offsets": ("nn.EmbeddingBag(4, 2, mode='sum')", [[0, 1, 3, 3], [0, 3]]),
    "EmbeddingBag max": ("nn.EmbeddingBag(4, 2, mode='max')", [[[0, 1], [3, 2]]]),
    # shapes
    "Flatten": ("nn.Flatten()", [(2, 3, 2)]),
    "Unflatten": ("nn.Unflatten(1, (2, -1))", [(2, 6)]),
    "PixelShuffle": ("nn.PixelShuffle(2)", [(1, 4, 2, 1)]),
    "PixelUnshuffle": ("nn.PixelUnshuffle(2)", [(1, 1, 2, 4)]),
    "ChannelShuffle": ("nn.ChannelShuffle(2)", [(1, 4, 1, 2)]),
    "Fold": ("nn.Fold((3, 3), 2)", [(1, 4, 4)]),
    "Unfold": ("nn.Unfold((2, 1), padding=1, stride=2)", [(1, 2, 3, 2)]),
    "Upsample": ("nn.Upsample(scale_factor=2)", [(1, 2, 3)]),
    "Upsample bilinear": ("nn.Upsample((3, 4), mode='bilinear')", [(1, 1, 2, 3)]),
    "UpsamplingNearest2d": ("nn.UpsamplingNearest2d(3)", [(1, 1, 2, 2)]),
    "UpsamplingBilinear2d": ("nn.UpsamplingBilinear2d(scale_factor=2)", [(1, 1, 2, 2)]),
    # padding
    "CircularPad1d": ("nn.CircularPad1d((1, 2))", [(1, 3)]),
    "CircularPad2d": ("nn.CircularPad2d(1)", [(1, 2, 2)]),
    "CircularPad3d": ("nn.CircularPad3d((1, 0, 1, 0, 0, 1))", [(1, 2, 2, 2)]),
    "ConstantPad1d": ("nn.ConstantPad1d(1, 3.5)", [(2, 2)]),
    "ConstantPad2d": ("nn.ConstantPad2d((1, 0, 0, 1), -1)", [(2, 2)]),
    "ConstantPad3d": ("nn.ConstantPad3d(1, 0.5)", [(1, 1, 1)]),
    "ReflectionPad1d": ("nn.ReflectionPad1d(2)", [(1, 3)]),
    "ReflectionPad2d": ("nn.ReflectionPad2d((1, 0, 0, 1))", [(1, 2, 2)]),
    "ReflectionPad3d": ("nn.ReflectionPad3d(1)", [(1, 2, 2, 2)]),
    "ReplicationPad1d": ("nn.ReplicationPad1d((1, 2))", [(1, 2)]),
    "ReplicationPad2d": ("nn.ReplicationPad2d(1)", [(1, 2, 2)]),
    "ReplicationPad3d": ("nn.ReplicationPad3d(1)", [(1, 1, 2, 2)]),
    "ZeroPad1d": ("nn.ZeroPad1d(1)", [(1, 2)]),
    "ZeroPad2d": ("nn.ZeroPad2d((1, 0, 1, 0))", [(2, 2)]),
    "ZeroPad3d": ("nn.ZeroPad3d((1, 0, 0, 0, 0, 1))", [(1, 2, 2)]),
    # distances
    "PairwiseDistance": ("nn.PairwiseDistance(3, keepdim=True)", [(2, 3), (2, 3)]),
    "CosineSimilarity": ("nn.CosineSimilarity()", [(2, 3), (2, 3)]),
    # losses
    "L1Loss": ("nn.L1Loss()", [(2, 3), (2, 3)]),
    "MSELoss sum": ("nn.MSELoss(reduction='sum')", [(2, 3), (2, 3)]),
    "MSELoss none": ("nn.MSELoss(reduction='none')", [(2, 3), (2, 3)]),
    "NLLLoss": ("nn.NLLLoss(torch.tensor([1.0, 2.0, 3.0]))", [(2, 3), [0, 2]]),
    "NLLLoss ignoring": ("nn.NLLLoss(ignore_index=2)", [(3, 3), [0, 2, 1]]),
    "PoissonNLLLoss": (
        "nn.PoissonNLLLoss(full=True)",
        [(2, 3), [[0.0, 2.0, 3.0], [1.0, 5.0, 0.0]]],
    ),
    "GaussianNLLLoss": (
        "nn.GaussianNLLLoss(full=True)",
        [(2, 2), (2, 2), [[0.5, 1.0], [2.0, 0.1]]],
    ),
    "KLDivLoss": ("nn.KLDivLoss(reduction='batchmean', log_target=True)", [(2, 3), (2, 3)]),
    "BCELoss": ("nn.BCELoss()", [[[0.2, 0.9], [0.5, 0.4]], [[0.0, 1.0], [1.0, 0.5]]]),
    "BCEWithLogitsLoss": (
        "nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 0.5]))",
        [(2, 2), [[0.0, 1.0], [1.0, 0.5]]],
    ),
    "HingeEmbeddingLoss": ("nn.HingeEmbeddingLoss(0.5)", [(4,), [1.0, -1.0, -1.0, 1.0]]),
    "MultiLabelMarginLoss": ("nn.MultiLabelMarginLoss()", [(1, 4), [[3, 0, -1, 1]]]),
    "SmoothL1Loss": ("nn.SmoothL1Loss(beta=0.3)", [(2, 3), (2, 3)]),
    "HuberLoss": ("nn.HuberLoss(delta=0.3)", [(2, 3), (2, 3)]),
    "SoftMarginLoss": ("nn.SoftMarginLoss()", [(2, 2), [[1.0, -1.0], [1.0, 1.0]]]),
    "CrossEntropyLoss": (
        "nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1)",
        [(2, 3), [0, 2]],
    ),
    "CrossEntropyLoss of probabilities": (
        "nn.CrossEntropyLoss()",
        [(2, 3), [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]],
    ),
    "LinearCrossEntropyLoss": ("nn.LinearCrossEntropyLoss(3, 4)", [(2, 3), [0, 3]]),
    "MultiLabelSoftMarginLoss": (
        "nn.MultiLabelSoftMarginLoss()",
        [(2, 3), [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]],
    ),
    "CosineEmbeddingLoss": ("nn.CosineEmbeddingLoss(0.1)", [(2, 3), (2, 3), [1.0, -1.0]]),
    "MarginRankingLoss": ("nn.MarginRankingLoss(0.1)", [(3,), (3,), [1.0, -1.0, 1.0]]),
    "MultiMarginLoss": ("nn.MultiMarginLoss(p=2, margin=0.5)", [(2, 3), [0, 2]]),
    "TripletMarginLoss": ("nn.TripletMarginLoss(swap=True)", [(2, 3), (2, 3), (2, 3)]),
    "TripletMarginWithDistanceLoss": (
        "nn.TripletMarginWithDistanceLoss(margin=0.5)",
        [(2, 3), (2, 3), (2, 3)],
    ),
    "CTCLoss": ("nn.CTCLoss()", [(4, 1, 3), [[1, 2]], [4], [2]]),
    "AdaptiveLogSoftmaxWithLoss": (
        "nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], div_value=2.0)",
        [(3, 4), [0, 3, 5]],
    ),
}


def wave(torch, shape, phase, dtype):
    """A tensor of a shape with values of a sine: the same in every framework."""
    count = 1
    for size in shape:
        count *= size
    steps = torch.arange(count, dtype=torch.float64)
    return (steps * 1.7 + phase).sin().to(dtype).reshape(shape)


def run_case(torch, name, dtype_name="float32"):
    """What a case gives: repr, outputs, buffers, gradients of the first input and parameters."""
    expression, inputs = CASES[name]
    dtype = getattr(torch, dtype_name)
    module = eval(expression, {"nn": torch.nn, "torch": torch}).to(dtype)
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(wave(torch, tuple(parameter.shape), place + 0.5, dtype))
    given = []
    for place, value in enumerate(inputs):
        if isinstance(value, tuple):
            given.append(wave(torch, value, place * 0.9 + 0.2, dtype).requires_grad_(place == 0))
        else:
            tensor = torch.tensor(value)
            given.append(tensor.to(dtype) if tensor.is_floating_point() else tensor)
    output = module(*(t * 1 if t.requires_grad else t for t in given))  # some work in place
    outputs = output if isinstance(output, tuple) else (output,)
    found = {
        "repr": repr(module),
        "shapes": [list(t.shape) for t in outputs],
        "outputs": [flat(t) for t in outputs],
        "buffers": {key: flat(b) for key, b in module.named_buffers()},
    }
    total = sum(
        (t * wave(torch, tuple(t.shape), 0.3, t.dtype)).sum() for t in outputs if t.requires_grad
    )
    if not isinstance(total, int):
        total.backward()
    sources = [given[0], *module.parameters()]
    found["gradients"] = [None if t.grad is None else flat(t.grad) for t in sources]
    return found


def flat(tensor):
    """All elements as Python numbers, rounded to the digits worth keeping."""
    return [round(float(value), 6) for value in tensor.detach().reshape(-1).tolist()]


if __name__ == "__main__":
    import torch

    lines = [f"{json.dumps(name)}: {json.dumps(run_case(torch, name))}" for name in CASES]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
