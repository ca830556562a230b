"""The names of the graph's nodes are PyTorch's (each recorded from it)."""

import pytest

import ember as torch
import ember.nn.functional as F

x = torch.tensor([[0.1, 0.4, 0.2], [0.9, 0.3, 0.5]], requires_grad=True)
y = torch.ones(2, 3) * 0.5
square = torch.eye(3)
classes = torch.tensor([0, 2])
image = torch.ones(1, 2, 6, 6, requires_grad=True)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: x / y, "DivBackward0"),
        (lambda: x**2, "PowBackward0"),
        (lambda: x**y, "PowBackward1"),
        (lambda: 2**x, "PowBackward2"),
        (lambda: x.log1p(), "Log1PBackward0"),
        (lambda: x.clamp(0, 1), "ClampBackward1"),
        (lambda: x.sum(), "SumBackward0"),
        (lambda: x.sum(1), "SumBackward1"),
        (lambda: x.mean(), "MeanBackward0"),
        (lambda: x.mean(1), "MeanBackward1"),
        (lambda: x.prod(), "ProdBackward0"),
        (lambda: x.std(), "StdBackward0"),
        (lambda: x.var(1), "VarBackward0"),
        (lambda: x.norm(), "LinalgVectorNormBackward0"),
        (lambda: x.max(), "MaxBackward1"),
        (lambda: x.max(1).values, "MaxBackward0"),
        (lambda: x.logsumexp(1), "LogsumexpBackward0"),
        (lambda: x @ square, "MmBackward0"),
        (lambda: torch.bmm(x[None], square[None]), "BmmBackward0"),
        (lambda: torch.addmm(torch.ones(3), x, square), "AddmmBackward0"),
        (lambda: x.mv(torch.ones(3)), "MvBackward0"),
        (lambda: torch.stack([x, y]), "StackBackward0"),
        (lambda: torch.cat([x, y]), "CatBackward0"),
        (lambda: F.linear(x, square, torch.ones(3)), "AddmmBackward0"),
        (lambda: F.linear(x, square), "MmBackward0"),
        (lambda: F.relu6(x), "HardtanhBackward0"),
        (lambda: F.conv2d(image, torch.ones(3, 2, 3, 3)), "ConvolutionBackward0"),
        (lambda: F.conv_transpose2d(image, torch.ones(2, 3, 3, 3)), "ConvolutionBackward0"),
        (lambda: F.max_pool2d(image, 2), "MaxPool2DWithIndicesBackward0"),
        (lambda: F.avg_pool2d(image, 2), "AvgPool2DBackward0"),
        (lambda: F.adaptive_avg_pool2d(image, 2), "AdaptiveAvgPool2DBackward0"),
        (lambda: F.batch_norm(image, None, None, training=True), "NativeBatchNormBackward0"),
        (lambda: F.layer_norm(x, (3,)), "NativeLayerNormBackward0"),
        (lambda: F.group_norm(image, 2), "NativeGroupNormBackward0"),
        (lambda: F.embedding(torch.tensor([0]), x), "EmbeddingBackward0"),
        (lambda: F.pad(x, (1, 1)), "ConstantPadNdBackward0"),
        (lambda: F.pad(image, (1, 1, 1, 1), mode="reflect"), "ReflectionPad2DBackward0"),
        (lambda: F.interpolate(image, scale_factor=2), "UpsampleNearest2DBackward0"),
        (lambda: F.mse_loss(x, y), "MseLossBackward0"),
        (lambda: F.mse_loss(x, y, reduction="none"), "MseLossBackward0"),
        (lambda: F.l1_loss(x, y), "MeanBackward0"),
        (lambda: F.cross_entropy(x, classes), "NllLossBackward0"),
        (lambda: F.nll_loss(x, classes), "NllLossBackward0"),
        (lambda: F.binary_cross_entropy(x, y), "BinaryCrossEntropyBackward0"),
        (lambda: x.half(), "ToCopyBackward0"),
    ],
)
def test_the_node_is_called_as_in_pytorch(made, name):
    node = made().grad_fn
    assert node.name() == type(node).__name__ == name
    assert repr(node).startswith(f"<{name} object at 0x")


def test_a_function_that_hands_its_argument_on_renames_nothing():
    product = x * 2
    assert F.dropout(product, 0.0).grad_fn.name() == "MulBackward0"
    assert torch.vdot is torch.vdot and product.grad_fn.name() == "MulBackward0"


def test_a_named_result_has_the_gradient_of_its_ops():
    leaf = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    mean = leaf.mean()
    assert mean.grad_fn.next_functions[0][0].name() == "SumBackward0"
    mean.backward()
    assert leaf.grad.tolist() == pytest.approx([1 / 3] * 3)
    assert repr(mean.detach().requires_grad_().mean()).endswith("grad_fn=<MeanBackward0>)")


def test_derivatives_are_named_after_their_function():
    leaf = torch.tensor([0.5], requires_grad=True)
    (first,) = torch.autograd.grad(torch.sigmoid(leaf), leaf, create_graph=True)
    assert first.grad_fn.name() == "SigmoidBackwardBackward0"
