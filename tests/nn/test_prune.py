"""Pruning; values recorded from PyTorch."""

import io

import pytest

import ember as torch
from ember.nn.utils import prune

WEIGHT = [[0.1, -0.2, 0.3, -0.4], [0.5, 0.6, -0.7, 0.8], [-0.9, 1.0, 1.1, -1.2]]


def layer():
    made = torch.nn.Linear(4, 3)
    made.weight.data.copy_(torch.tensor(WEIGHT))
    made.bias.data.copy_(torch.tensor([0.1, -0.2, 0.3]))
    return made


def zeros_of(mask):
    return [tuple(place) for place in (mask == 0).nonzero().tolist()]


def test_the_smallest_elements_go_and_come_out_again():
    made = layer()
    assert prune.l1_unstructured(made, "weight", amount=0.4) is made
    assert zeros_of(made.weight_mask) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert list(made.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert type(made.weight) is torch.Tensor and prune.is_pruned(made)
    made(torch.ones(4)).sum().backward()
    assert made.weight_orig.grad[1].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert prune.remove(made, "weight") is made
    assert isinstance(made.weight, torch.nn.Parameter) and not prune.is_pruned(made)
    assert list(made.state_dict()) == ["bias", "weight"]
    assert made.weight[0].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert not made._forward_pre_hooks


def test_channels_and_then_elements():
    made = layer()
    prune.ln_structured(made, "weight", amount=1, n=2, dim=0)
    assert made.weight_mask.tolist() == [[0.0] * 4, [1.0] * 4, [1.0] * 4]
    prune.l1_unstructured(made, "weight", amount=2)
    assert made.weight_mask[1:].tolist() == [[0.0, 0.0, 1.0, 1.0], [1.0] * 4]
    (hook,) = made._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2
    assert [type(method).__name__ for method in hook] == ["LnStructured", "L1Unstructured"]
    assert hook._tensor_name == "weight"
    prune.remove(made, "weight")
    assert zeros_of(made.weight) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def test_channels_twice():
    made = layer()
    for _ in range(2):
        prune.ln_structured(made, "weight", 1, n=1, dim=1)
    prune.random_unstructured(made, "weight", 0)
    assert made.weight_mask.tolist() == [[0.0, 0.0, 1.0, 1.0]] * 3


def test_at_random_as_pytorch_draws():
    made = layer()
    torch.manual_seed(0)
    prune.random_unstructured(made, "weight", amount=5)
    assert made.weight_mask.tolist() == [[0, 0, 1, 1], [1, 0, 1, 0], [1, 0, 1, 1]]
    torch.manual_seed(0)
    made = layer()  # draws first
    prune.random_structured(made, "weight", amount=1, dim=1)
    assert made.weight_mask.tolist() == [[1, 1, 1, 0]] * 3


def test_across_modules():
    first, second = layer(), layer()
    first.weight.data[0, 2] = 0.35
    pairs = [(first, "weight"), (second, "bias")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=5)
    assert zeros_of(first.weight_mask) == [(0, 0), (0, 1)]
    assert second.bias_mask.tolist() == [0.0, 0.0, 0.0]


def test_masks_of_ones_own_and_the_forward():
    made = layer()
    prune.identity(made, "bias")
    assert made.bias_mask.tolist() == [1.0, 1.0, 1.0]
    prune.custom_from_mask(made, "bias", torch.tensor([1, 0, 1]))
    assert made.bias.tolist() == pytest.approx([0.1, 0.0, 0.3])
    made.bias_orig.data.fill_(2.0)
    made(torch.ones(4))  # makes it anew
    assert made.bias.tolist() == [2.0, 0.0, 2.0]


def test_scores_of_ones_own():
    made = layer()
    prune.l1_unstructured(made, "weight", 2, importance_scores=torch.arange(12.0).view(3, 4))
    assert zeros_of(made.weight_mask) == [(0, 0), (0, 1)]
    method = prune.L1Unstructured(amount=2)
    assert method.prune(torch.tensor([3.0, 1.0, -2.0])).tolist() == [3.0, 0.0, 0.0]
    scores, known = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 1.0])
    assert method.prune(torch.tensor([3.0, 1.0, -2.0]), known, scores).tolist() == [0, 0, -2]


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "amount=-1 should either"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "amount=1.5 should either"),
        (lambda m: prune.l1_unstructured(m, "weight", "x"), TypeError, "Must be int or float"),
        (lambda m: prune.l1_unstructured(m, "weight", 100), ValueError, "to prune=12"),
        (lambda m: prune.remove(m, "weight"), ValueError, "has to be pruned before"),
        (lambda m: prune.ln_structured(m, "weight", 1, 2, 5), IndexError, "Invalid index 5"),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "multidimensional"),
        (
            lambda m: prune.l1_unstructured(m, "weight", 2, importance_scores=torch.ones(2)),
            AssertionError,
            "should have the same shape",
        ),
        (
            lambda m: prune.custom_from_mask(m, "weight", torch.ones(2)),
            AssertionError,
            "mask has shape",
        ),
        (
            lambda m: prune.global_unstructured([(m, "weight")], prune.RandomStructured, amount=5),
            TypeError,
            'Only "unstructured" PRUNING_TYPE',
        ),
        (
            lambda m: prune.global_unstructured(3, prune.L1Unstructured, amount=5),
            TypeError,
            "not an Iterable",
        ),
    ],
)
def test_errors_change_nothing(function, kind, message):
    made = layer()
    with pytest.raises(kind, match=message):
        function(made)
    assert repr(made) == "Linear(in_features=4, out_features=3, bias=True)"
    assert list(made.state_dict()) == ["weight", "bias"]
    assert isinstance(made.weight, torch.nn.Parameter) and not made._forward_pre_hooks


def test_containers_take_methods_of_one_parameter():
    first, second = prune.Identity(), prune.Identity()
    first._tensor_name, second._tensor_name = "weight", "bias"
    container = prune.PruningContainer(first)
    with pytest.raises(ValueError, match="acting on the parameter named 'weight'"):
        container.add_pruning_method(second)
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        container.add_pruning_method(3)
    assert len(container) == 1 and container[0] is first


def test_pruned_modules_are_saved_under_pytorchs_names():
    made = prune.l1_unstructured(layer(), "weight", 3)
    made.weight = made.weight.detach()
    file = io.BytesIO()
    torch.save(made, file)
    assert b"torch.nn.utils.prune" in file.getvalue() and b"pruning" not in file.getvalue()
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert prune.is_pruned(again) and again.weight_mask.tolist() == made.weight_mask.tolist()


def test_weights_of_convolutions_in_another_format():
    utils = torch.nn.utils
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Conv3d(2, 3, 2))
    before = net[0].weight.tolist()
    assert utils.convert_conv2d_weight_memory_format(net, torch.channels_last) is net
    assert net[0].weight.stride() == (8, 1, 4, 2) and net[0].weight.tolist() == before
    assert net[1].weight.is_contiguous()
    utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
    assert net[1].weight.is_contiguous(memory_format=torch.channels_last_3d)
