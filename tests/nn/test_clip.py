"""Gradient clipping, parameters as vectors, modules without initialisation."""

import functools
import math
import operator

import pytest

import ember as torch
from ember import nn
from ember.nn import utils


def with_grad(*values, dtype=None):
    parameter = nn.Parameter(torch.zeros(len(values), dtype=dtype))
    parameter.grad = torch.tensor(values, dtype=dtype)
    return parameter


@pytest.mark.parametrize(
    ("norm_type", "norm", "clipped"),
    [
        (2, 13.0, [0.230769, 0.307692, 0.0, -0.923077]),
        (1, 19.0, [0.157895, 0.210526, 0.0, -0.631579]),
        (math.inf, 12.0, [0.25, 0.333333, 0.0, -1.0]),
        ("inf", 12.0, [0.25, 0.333333, 0.0, -1.0]),
        (-math.inf, 0.0, [3.0, 4.0, 0.0, -12.0]),
        (0.5, 51.784611, [0.057932, 0.077243, 0.0, -0.231729]),
        (0, 2.0, [1.499999, 1.999999, 0.0, -5.999997]),
        (3, 12.207083, [0.245759, 0.327679, 0.0, -0.983038]),
    ],
)
@pytest.mark.parametrize("foreach", [None, False, True])
def test_clip_grad_norm(norm_type, norm, clipped, foreach):
    parameters = [with_grad(3.0, 4.0), with_grad(0.0, -12.0)]
    total = utils.clip_grad_norm_(parameters, 1.0, norm_type=norm_type, foreach=foreach)
    assert total.item() == pytest.approx(norm, rel=1e-5)
    assert functools.reduce(
        operator.iadd, (p.grad.tolist() for p in parameters), []
    ) == pytest.approx(clipped, abs=2e-6)


def test_small_gradients_stay():
    parameter = with_grad(3.0, 4.0)
    assert utils.clip_grad_norm_(parameter, 100.0).item() == 5.0
    assert parameter.grad.tolist() == [3.0, 4.0]


def test_parameters_without_gradients_do_not_count():
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_([nn.Parameter(torch.ones(1))], 1.0).item() == 0.0
    assert utils.get_total_norm([]).item() == 0.0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        utils.clip_grad_norm_((p for p in []), 1.0)
    assert utils.clip_grad_norm_((p for p in [with_grad(3.0, 4.0)]), 1.0).item() == 5.0


def test_norms_that_are_not_finite():
    parameter = with_grad(3.0, math.nan)
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients"):
        utils.clip_grad_norm_(parameter, 1.0, error_if_nonfinite=True)
    assert parameter.grad[0].item() == 3.0
    assert math.isnan(utils.clip_grad_norm_(parameter, 1.0).item())
    assert all(math.isnan(v) for v in parameter.grad.tolist())


def test_several_dtypes():
    parameters = [with_grad(3.0, 4.0, dtype=d) for d in (torch.float32, torch.float64)]
    total = utils.clip_grad_norm_(parameters, 1.0)
    assert total.dtype == torch.float64 and total.item() == pytest.approx(math.sqrt(50))
    assert [p.grad.dtype for p in parameters] == [torch.float32, torch.float64]
    assert parameters[0].grad.tolist() == pytest.approx([3 / math.sqrt(50), 4 / math.sqrt(50)])


def test_clip_grads_with_norm_and_total_norm():
    parameter = with_grad(3.0, 4.0)
    assert utils.get_total_norm([parameter.grad], 1.0).item() == 7.0
    utils.clip_grads_with_norm_([parameter], 1.0, torch.tensor(10.0))
    assert parameter.grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)


def test_clip_grad_value():
    parameter = with_grad(3.0, -4.0)
    utils.clip_grad_value_([parameter, nn.Parameter(torch.ones(1))], 3.5)
    assert parameter.grad.tolist() == [3.0, -3.5]
    with pytest.warns(FutureWarning, match="clip_grad_norm` is now deprecated"):
        utils.clip_grad_norm([parameter], 1.0)


def test_parameters_to_vector_and_back():
    net = nn.Linear(2, 1)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (3,) and vector.requires_grad
    utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1.0, 2.0]] and net.bias.tolist() == [3.0]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(RuntimeError, match="is invalid for input of size 1"):
        utils.vector_to_parameters(torch.zeros(1), net.parameters())
    assert net.weight.tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="expected a non-empty list of Tensors"):
        utils.parameters_to_vector([])


def test_skip_init():
    net = utils.skip_init(nn.Linear, 5, 1)
    assert type(net) is nn.Linear and net.weight.device.type == "cpu" and net.weight.shape == (1, 5)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        utils.skip_init(nn.ReLU)
    with pytest.raises(TypeError):
        utils.skip_init(nn.functional.relu)


@pytest.mark.usefixtures("gpus")
def test_gradients_on_several_gpus():
    parameters = [nn.Parameter(torch.zeros(2, device=d)) for d in ("cuda:0", "cuda:1")]
    for parameter, values in zip(parameters, ([3.0, 4.0], [0.0, -12.0]), strict=True):
        parameter.grad = torch.tensor(values, device=parameter.device)
    total = utils.clip_grad_norm_(parameters, 1.0)
    assert total.device == parameters[0].device and total.item() == pytest.approx(13.0)
    assert [p.grad.get_device() for p in parameters] == [0, 1]
    assert parameters[1].grad.tolist() == pytest.approx([0.0, -12 / 13], rel=1e-5)
    with pytest.raises(TypeError, match="Found two parameters on different devices"):
        utils.parameters_to_vector(parameters)
