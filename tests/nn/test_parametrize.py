"""Parametrizations, weight and spectral normalization, fusion, calls with other tensors."""

import copy
import pickle

import pytest

import ember as torch
from ember import nn
from ember.nn.utils import parametrizations, parametrize, stateless


class Halves(nn.Module):
    def forward(self, x):
        return x / 2

    def right_inverse(self, x):
        return x * 2


class Plus(nn.Module):
    def forward(self, x):
        return x + 1


class Product(nn.Module):
    def forward(self, a, b):
        return a * b

    def right_inverse(self, x):
        return torch.full_like(x, 2.0), x / 2


def test_a_parametrized_weight_is_computed_from_its_original():
    layer = nn.Linear(2, 2)
    weight, value = layer.weight, layer.weight.detach().clone()
    assert parametrize.register_parametrization(layer, "weight", Halves()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is weight
    assert torch.equal(layer.weight, value) and torch.equal(weight.detach(), value * 2)
    assert layer(torch.ones(1, 2)).shape == (1, 2)
    layer.weight = torch.ones(2, 2)
    assert weight.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    layer.weight.sum().backward()
    assert weight.grad.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear


def test_a_second_parametrization_follows_the_first():
    layer = nn.Linear(1, 1)
    value = layer.weight.item()
    parametrize.register_parametrization(layer, "weight", Halves())
    parametrize.register_parametrization(layer, "weight", Plus())
    assert layer.weight.item() == pytest.approx(value + 1, rel=1e-5)
    with pytest.raises(RuntimeError, match="Plus does not implement right_inverse"):
        layer.weight = torch.ones(1, 1)


def test_removal_keeps_the_value_or_the_original():
    for leave, expected in ((True, 1.0), (False, 2.0)):
        layer = nn.Linear(1, 1)
        weight = layer.weight
        parametrize.register_parametrization(layer, "weight", Halves())
        layer.weight = torch.ones(1, 1)
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
        assert type(layer) is nn.Linear and layer.weight is weight
        assert layer.weight.item() == expected and not hasattr(layer, "parametrizations")
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(1, 1), "weight")


def test_several_originals():
    layer = nn.Linear(2, 1)
    value = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Product())
    names = ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert list(layer.state_dict()) == names
    assert torch.allclose(layer.weight, value) and len(list(layer.parameters())) == 3
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and torch.allclose(layer.weight, value)


def test_buffers_caching_and_copies():
    module = nn.Module()
    module.register_buffer("b", torch.ones(2))
    parametrize.register_parametrization(module, "b", Plus())
    assert module.b.tolist() == [2.0, 2.0]
    assert [n for n, _ in module.named_buffers()] == ["parametrizations.b.original"]
    with parametrize.cached():
        assert module.b is module.b
    assert module.b is not module.b
    twin = copy.deepcopy(module)
    assert twin.b.tolist() == [2.0, 2.0] and type(twin) is not type(module)
    twin.parametrizations.b.original.zero_()
    assert module.b.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(module)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda x: x[:1], "may not change the shape of the tensor"),
        (lambda x: x.double(), "may not change the dtype of the tensor"),
        (lambda x: 3, "A parametrization must return a tensor. Got int."),
    ],
)
def test_results_that_do_not_fit(forward, message):
    parametrization = nn.Module()
    parametrization.forward = forward
    layer = nn.Linear(2, 2)
    weight = layer.weight
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", parametrization)
    assert type(layer) is nn.Linear and layer.weight is weight
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized"):
        parametrize.register_parametrization(layer, "nope", Halves())


def test_transfer():
    source, target = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(source, "weight", Halves())
    assert parametrize.transfer_parametrizations_and_params(source, target) is target
    assert torch.equal(source.weight, target.weight)


@pytest.mark.parametrize(("dim", "shape"), [(0, (2, 1)), (1, (1, 3)), (None, ())])
def test_weight_norm(dim, shape):
    layer = nn.Linear(3, 2)
    value = layer.weight.detach().clone()
    parametrizations.weight_norm(layer, dim=dim)
    assert layer.parametrizations.weight.original0.shape == shape
    assert torch.allclose(layer.weight, value, atol=1e-6)
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2)
    assert torch.allclose(layer.weight, value * 2, atol=1e-6)


def test_weight_norm_loads_the_older_keys():
    layer = parametrizations.weight_norm(nn.Linear(1, 1))
    layer.load_state_dict(
        {"weight_g": torch.full((1, 1), 3.0), "weight_v": torch.ones(1, 1), "bias": torch.ones(1)}
    )
    assert layer.weight.item() == 3.0


def test_older_weight_norm():
    layer = nn.Linear(3, 2)
    value = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match="`torch.nn.utils.weight_norm` is deprecated"):
        nn.utils.weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight_g.grad is not None and torch.allclose(layer.weight, value, atol=1e-6)
    with (
        pytest.warns(FutureWarning),
        pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"),
    ):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"] and not layer._forward_pre_hooks
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        nn.utils.remove_weight_norm(layer)


def largest_singular_value(weight):
    return torch.linalg.svdvals(weight.detach().flatten(1)).max().item()


def test_spectral_norm():
    torch.manual_seed(3)
    layer = parametrizations.spectral_norm(nn.Linear(3, 2))
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original",
        "parametrizations.weight.0._u",
        "parametrizations.weight.0._v",
    ]
    wanted = [-0.5639, -0.4487, -0.2436, -0.5381, -0.0323, -0.5004]
    assert layer.weight.flatten().tolist() == pytest.approx(wanted, abs=1e-3)
    assert largest_singular_value(layer.weight) == pytest.approx(1.0, rel=1e-3)
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None


def test_older_spectral_norm():
    torch.manual_seed(3)
    layer = nn.utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=20)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(torch.ones(1, 3)).sum().backward()
    assert largest_singular_value(layer.weight) == pytest.approx(1.0, rel=1e-3)
    layer.eval()
    before = layer.weight_u.clone()
    layer(torch.ones(1, 3))
    assert torch.equal(layer.weight_u, before)
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("orthogonal_map", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 3), (3, 2), (2, 3)])
@pytest.mark.parametrize("trivialized", [True, False])
def test_orthogonal(orthogonal_map, inputs, outputs, trivialized):
    layer = nn.Linear(inputs, outputs)
    parametrizations.orthogonal(
        layer, orthogonal_map=orthogonal_map, use_trivialization=trivialized
    )
    weight = layer.weight
    small = min(inputs, outputs)
    product = weight @ weight.T if outputs <= inputs else weight.T @ weight
    assert torch.allclose(product, torch.eye(small), atol=1e-5)
    weight.sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == weight.shape


def test_orthogonal_weights_can_be_assigned():
    layer = parametrizations.orthogonal(nn.Linear(2, 2))
    turned = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    layer.weight = turned
    assert torch.allclose(layer.weight, turned, atol=1e-6)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x")


def test_fused_batch_norms_compute_the_same():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(1, 2)
    conv = nn.Conv2d(2, 3, 2, bias=False).eval()
    x = torch.randn(1, 2, 3, 3)
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    assert torch.allclose(fused(x), norm(conv(x)), atol=1e-5) and conv.bias is None
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(2, 3, 2), norm)
    linear = nn.Linear(2, 3).eval()
    vector_norm = nn.BatchNorm1d(3).eval()
    vector_norm.running_mean.normal_()
    fused = nn.utils.fuse_linear_bn_eval(linear, vector_norm)
    assert torch.allclose(fused(x[:, :, 0, 0]), vector_norm(linear(x[:, :, 0, 0])), atol=1e-5)
    with pytest.raises(AssertionError, match="To fuse, linear.out_features == bn.num_features"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(2).eval())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(1, 1, bias=False)
        self.b = nn.Linear(1, 1, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.a(x) + 10 * self.b(x)


def test_calls_with_other_tensors():
    layer, x = nn.Linear(1, 1), torch.ones(1, 1)
    weight, own = torch.full((1, 1), 2.0, requires_grad=True), layer.weight
    out = stateless.call_with(layer, ({"weight": weight}, {"bias": torch.full((1,), 3.0)}), x)
    out.sum().backward()
    assert out.item() == 5.0 and weight.grad.item() == 1.0
    assert layer.weight is own and own.grad is None
    assert stateless.call_with(layer, {"q": x}, x).item() == layer(x).item()
    assert not hasattr(layer, "q")


def test_tied_weights_are_replaced_together():
    net, x, given = Tied(), torch.ones(1, 1), torch.full((1, 1), 2.0)
    assert stateless.call_with(net, {"b.weight": given}, x).item() == 22.0
    own = net.a.weight.item()
    apart = stateless.call_with(net, {"a.weight": given}, x, tie_weights=False).item()
    assert apart == pytest.approx(2 + 10 * own, rel=1e-5)
    with pytest.raises(ValueError, match="got multiple values for keys"):
        stateless.call_with(net, {"a.weight": given, "b.weight": given * 2}, x)


def test_buffers_that_forward_assigns_come_back():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self):
            self.n = self.n + 1
            return self.n

    counter, given = Counter(), {"n": torch.full((1,), 5.0)}
    assert stateless.call_with(counter, given).item() == 6.0
    assert counter.n.item() == 0.0 and given["n"].item() == 6.0


def test_strict_calls_and_errors():
    layer, x = nn.Linear(1, 1), torch.ones(1, 1)
    with pytest.raises(RuntimeError) as error:
        stateless.call_with(layer, {"weight": x, "q": x}, x, strict=True)
    assert str(error.value) == (
        "Error(s) in reparametrizing for Linear:\n"
        "\tUnexpected key(s): 'q'.\n"
        "\tMissing key(s): 'bias'."
    )
    with pytest.raises(TypeError, match="3 is not an instance of torch.Tensor"):
        stateless.call_with(layer, {"weight": 3}, x)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        stateless.call_with(layer, ({"weight": x}, {"weight": x}), x)
    with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
        stateless.call_with(layer, 3, x)
    with pytest.warns(FutureWarning, match="functional_call` is deprecated as of PyTorch 2.0"):
        stateless.functional_call(layer, {"weight": x}, x)
