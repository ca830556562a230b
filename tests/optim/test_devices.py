"""Optimizers on GPUs: where state lives, how it follows its parameters, numbers on the device."""

import pytest

import ember
from ember import nn
from ember.optim import LBFGS, SGD, Adagrad, Adam, NAdam, Optimizer

pytestmark = pytest.mark.usefixtures("gpus")


def stepped(optimizer, params, times=1):
    for _ in range(times):
        for p in params:
            p.grad = ember.full_like(p.detach(), 0.5)
        optimizer.step()


def trained(kind, device, moves=(), **options):
    """Two parameters after two steps, and one more on each device that follows."""
    layer = nn.Linear(2, 1)
    with ember.no_grad():
        for p in layer.parameters():
            p.fill_(1.0)
    layer.to(device)
    optimizer = kind(layer.parameters(), lr=0.1, **options)
    stepped(optimizer, layer.parameters(), 2)
    for place in moves or (device,) * 2:
        layer.to(place)
        stepped(optimizer, layer.parameters())
    return optimizer, layer, [p.tolist() for p in layer.parameters()]


KINDS = [
    (SGD, {"momentum": 0.9}),
    (Adam, {"amsgrad": True}),
    (NAdam, {}),
    (Adagrad, {}),
    (ember.optim.AdamW, {}),
    (ember.optim.ASGD, {"t0": 1}),
    (ember.optim.RMSprop, {"centered": True, "momentum": 0.5}),
    (ember.optim.Rprop, {}),
    (ember.optim.Adadelta, {}),
    (ember.optim.RAdam, {}),
    (ember.optim.Adamax, {}),
    (ember.optim.Adafactor, {}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_gpu_gives_what_the_cpu_gives(kind, options):
    _, _, wanted = trained(kind, "cpu", **options)
    optimizer, layer, found = trained(kind, "cuda:1", **options)
    assert found[0][0] == pytest.approx(wanted[0][0], rel=1e-5)
    for p in layer.parameters():
        for name, value in optimizer.state[p].items():
            place = "cpu" if name in kind._host_state else "cuda:1"
            assert str(value.device) == place, name


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_state_follows_a_module_that_moves(kind, options):
    _, _, wanted = trained(kind, "cpu", **options)
    optimizer, layer, found = trained(kind, "cpu", ("cuda:1", "cuda:0"), **options)
    assert found[0][0] == pytest.approx(wanted[0][0], rel=1e-5)
    for p in layer.parameters():
        for name, value in optimizer.state[p].items():
            assert str(value.device) == ("cpu" if name in kind._host_state else "cuda:0"), name
    _, _, found = trained(kind, "cuda:0", ("cpu", "cuda:1"), **options)
    assert found[0][0] == pytest.approx(wanted[0][0], rel=1e-5)


def test_state_of_ones_own_optimizer_follows_too():
    class Lion(Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        @ember.no_grad()
        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", ember.zeros_like(p))
                state["history"] = [*state.get("history", []), mean.clone()]
                p.sub_((mean * 0.9 + p.grad * 0.1).sign() * 0.1)
                mean.lerp_(p.grad, 0.01)

    weight = nn.Parameter(ember.ones(2))
    optimizer = Lion([weight])
    stepped(optimizer, [weight])
    weight.data = weight.data.cuda()
    stepped(optimizer, [weight])
    assert optimizer.state[weight]["mean"].is_cuda
    assert all(t.is_cuda for t in optimizer.state[weight]["history"])
    assert weight.tolist() == pytest.approx([0.8, 0.8])


def test_lbfgs_follows():
    weight = nn.Parameter(ember.tensor([3.0, -2.0]))
    optimizer = LBFGS([weight], max_iter=2, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((weight - 1) ** 4).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item()]
    for place in ("cuda:0", "cpu"):
        weight.data = weight.data.to(place)
        losses.append(optimizer.step(closure).item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.2 * losses[0]
    assert optimizer.state[weight]["old_dirs"][0].device.type == "cpu"


@pytest.mark.parametrize(("option", "place"), [("fused", "cpu"), ("capturable", "cuda:1")])
def test_where_steps_are_counted(option, place):
    optimizer, layer, found = trained(Adam, "cuda:0", ("cuda:1", "cuda:1"), **{option: True})
    _, _, wanted = trained(Adam, "cpu")
    assert found[0][0] == pytest.approx(wanted[0][0], rel=1e-4)
    step = optimizer.state[layer.weight]["step"]
    assert str(step.device) == place and step.dtype == ember.float32 and step.item() == 4


def test_a_learning_rate_on_the_device():
    lr = ember.tensor(0.5, device="cuda")
    weight = nn.Parameter(ember.ones(2, device="cuda"))
    optimizer = Adam([weight], lr=lr, capturable=True)
    stepped(optimizer, [weight])
    assert weight.tolist() == pytest.approx([0.5, 0.5], rel=1e-4)
    lr.fill_(0.25)
    stepped(optimizer, [weight])
    assert weight.tolist() == pytest.approx([0.25, 0.25], rel=1e-4)


def test_checkpoints_cross_devices():
    optimizer, layer, _ = trained(Adam, "cuda:1")
    other = nn.Linear(2, 1)
    again = Adam(other.parameters())
    again.load_state_dict(optimizer.state_dict())
    state = again.state[other.weight]
    assert state["exp_avg"].device.type == "cpu" and state["step"].item() == 4
    assert state["exp_avg"].tolist() == optimizer.state[layer.weight]["exp_avg"].tolist()
    optimizer.load_state_dict(again.state_dict())
    assert str(optimizer.state[layer.weight]["exp_avg"].device) == "cuda:1"
    assert optimizer.state[layer.weight]["step"].device.type == "cpu"


def test_parameters_on_two_gpus():
    params = [nn.Parameter(ember.ones(2, device=f"cuda:{i}")) for i in range(2)]
    optimizer = SGD(params, lr=1.0, momentum=0.9)
    stepped(optimizer, params, 2)
    assert params[0].tolist() == params[1].tolist() == pytest.approx([-0.45, -0.45])
