"""Modules under transforms: per-sample gradients, ensembles, Hessians of small nets."""

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def filled(torch, module):
    """A module with weights that are the same in every framework."""
    for place, parameter in enumerate(module.parameters()):
        steps = torch.arange(parameter.numel(), dtype=torch.float64)
        values = (steps * 1.3 + place + 0.4).sin() * 0.4
        parameter.data = values.reshape(parameter.shape)
    return module


def perceptron(torch):
    layers = [torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)]
    return filled(torch, torch.nn.Sequential(*layers))


def convolutions(torch):
    nn = torch.nn
    layers = [nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(1, 3)]
    return filled(torch, nn.Sequential(*layers, nn.Flatten(), nn.Linear(27, 3)))


@pytest.mark.parametrize(("build", "shape"), [(perceptron, (4,)), (convolutions, (1, 6, 6))])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_gradients_of_each_sample(torch, build, shape, chunk_size):
    net = build(torch)
    steps = torch.arange(5 * torch.ones(shape).numel(), dtype=torch.float64)
    samples, classes = (steps * 0.7).sin().reshape(5, *shape), torch.tensor([0, 2, 1, 1, 0])
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters, sample, wanted):
        out = torch.func.functional_call(net, parameters, (sample[None],))
        return torch.nn.functional.cross_entropy(out, wanted[None])

    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), chunk_size=chunk_size)
    found = each(parameters, samples, classes)
    for number in range(5):
        one = torch.nn.functional.cross_entropy(
            net(samples[number : number + 1]), classes[number : number + 1]
        )
        wanted = torch.autograd.grad(one, list(net.parameters()))
        for gradient, right in zip(found.values(), wanted, strict=True):
            assert torch.allclose(gradient[number], right)


def test_ensemble(torch):
    nets = [perceptron(torch) for _ in range(3)]
    for place, net in enumerate(nets):
        for parameter in net.parameters():
            parameter.data = parameter.data * (place + 1)
    parameters, buffers = torch.func.stack_module_state(nets)
    assert parameters["0.weight"].shape == (3, 5, 4) and parameters["0.weight"].is_leaf
    assert parameters["0.weight"].requires_grad and buffers == {}
    x = (torch.arange(8, dtype=torch.float64) * 0.3).cos().reshape(2, 4)

    def call(parameters, x):
        return torch.func.functional_call(nets[0], parameters, (x,))

    together = torch.vmap(call, in_dims=(0, None))(parameters, x)
    assert torch.allclose(together, torch.stack([net(x) for net in nets]))
    together.sum().backward()
    nets[1](x).sum().backward()
    assert torch.allclose(parameters["0.weight"].grad[1], nets[1][0].weight.grad)
    own = torch.vmap(call)(parameters, torch.stack([x, x * 2, x * 3]))
    assert torch.allclose(own[2], nets[2](x * 3))


def test_hessian_of_a_net(torch):
    net = perceptron(torch)
    x = (torch.arange(4, dtype=torch.float64) * 0.3).cos()
    weight = net[2].weight.detach()

    def loss(weight):
        out = torch.func.functional_call(net, {"2.weight": weight}, (x,))
        return (out.softmax(0) ** 2).sum()

    wanted = torch.autograd.functional.hessian(loss, weight)
    assert torch.allclose(torch.func.hessian(loss)(weight), wanted)


def test_training_step(torch):
    """One step of descent by functional gradients is one of SGD."""
    net = perceptron(torch)
    x = (torch.arange(12, dtype=torch.float64) * 0.3).cos().reshape(3, 4)
    parameters = {name: p.detach().clone() for name, p in net.named_parameters()}

    def loss(parameters):
        return (torch.func.functional_call(net, parameters, (x,)) ** 2).mean()

    gradients = torch.func.grad(loss)(parameters)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    (net(x) ** 2).mean().backward()
    optimizer.step()
    for name, parameter in net.named_parameters():
        assert torch.allclose(parameters[name] - 0.1 * gradients[name], parameter)


def test_unlike_models(torch):
    stack, nn = torch.func.stack_module_state, torch.nn
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        stack([])
    with pytest.raises(RuntimeError, match="all models to be of the same class"):
        stack([nn.ReLU(), nn.Tanh()])
    with pytest.raises(RuntimeError, match="the same training/eval mode"):
        stack([nn.ReLU(), nn.ReLU().eval()])


def test_batch_norm_without_statistics(torch):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    assert torch.func.replace_all_batch_norm_modules_(net) is net
    assert net[0].running_mean is None and not net[0].track_running_stats
    x = (torch.arange(24, dtype=torch.float32) * 0.3).cos().reshape(2, 4, 3)
    found = torch.vmap(net)(x)
    assert torch.allclose(found[1], net(x[1]), atol=1e-6)


def test_functionalize_and_debug_unwrap(torch):
    x = torch.ones(2, 3)
    assert torch.func.functionalize(lambda a: a.clone().add_(1))(x).tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match="received invalid argument for remove"):
        torch.func.functionalize(lambda a: a, remove="all")(x)
    seen = []

    def function(a):
        seen.append(torch.func.debug_unwrap(a))
        return a

    torch.vmap(function)(x)
    assert torch.equal(seen[0], x)
