"""Steps of optimizers inside recordings: the same parameters and state as eager steps, whatever
changes between them."""

import copy
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember import nn
from ember.capture.compiled import Captured
from ember.optim.lr_scheduler import CyclicLR, ExponentialLR, OneCycleLR

optim = torch.optim
OPTIMIZERS = {
    "adam": lambda p: optim.Adam(p, lr=1e-2),
    "adam amsgrad decay": lambda p: optim.Adam(p, amsgrad=True, weight_decay=0.1),
    "adam flags": lambda p: optim.Adam(p, lr=1e-2, foreach=True, maximize=True),
    "adam tensors": lambda p: optim.Adam(p, lr=torch.tensor(1e-2)),
    "adam small betas": lambda p: optim.Adam(p, lr=1e-2, betas=(0.3, 0.4)),
    "adamw": lambda p: optim.AdamW(p, lr=1e-2),
    "adamw fused": lambda p: optim.AdamW(p, lr=1e-2, fused=True),
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd decay": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01, maximize=True),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=1e-2, weight_decay=0.1),
    "rmsprop all": lambda p: optim.RMSprop(p, lr=1e-2, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1),
}
HOSTS = {
    "radam": lambda p: optim.RAdam(p, lr=1e-2),
    "nadam": lambda p: optim.NAdam(p, lr=1e-2),
    "adamax": lambda p: optim.Adamax(p, lr=1e-2),
    "rprop": lambda p: optim.Rprop(p, lr=1e-2),
    "adadelta": lambda p: optim.Adadelta(p, lr=1e-2),
    "asgd": lambda p: optim.ASGD(p, lr=1e-2),
}


class Training:
    """A small net with an optimizer, its step captured or not."""

    def __init__(self, make, captured, groups=lambda net: net.parameters(), twice=False):
        torch.manual_seed(0)
        self.net = net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
        self.optimizer = optimizer = make(groups(net))
        self.data = torch.Generator().manual_seed(1)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            if twice:
                optimizer.step()
            return loss

        self.run = Captured(step) if captured else step

    def steps(self, count, between=lambda turn: None):
        losses = []
        for turn in range(count):
            losses.append(self.run(torch.randn(4, 5, generator=self.data)).item())
            between(turn)
        return losses

    def state(self):
        return self.optimizer.state_dict()


def assert_alike(a, b):
    """Two trainings have the same parameters and checkpoints."""
    for found, exact in zip(a.net.parameters(), b.net.parameters(), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-6)
    found, exact = a.state(), b.state()
    assert found["state"].keys() == exact["state"].keys()
    for key, entry in exact["state"].items():
        assert found["state"][key].keys() == entry.keys()
        for name, value in entry.items():
            torch.testing.assert_close(found["state"][key][name], value, rtol=1e-4, atol=1e-6)
    for group, other in zip(found["param_groups"], exact["param_groups"], strict=True):
        assert {k: float(v) for k, v in group.items() if type(v) is float} == pytest.approx(
            {k: float(v) for k, v in other.items() if type(v) is float}
        )


def is_recorded(training):
    """Whether a replay does without the optimizer's Python."""
    kind, calls = type(training.optimizer), []
    before = kind._update
    try:
        kind._update = lambda *args: calls.append(1) or before(*args)
        training.steps(1)
    finally:
        kind._update = before
    return not calls


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_the_same_without_their_python(name):
    both = [Training(OPTIMIZERS[name], captured) for captured in (True, False)]
    losses = []
    for training in both:
        schedule = ExponentialLR(training.optimizer, 0.9)
        losses.append(training.steps(30, lambda turn, s=schedule: s.step()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert_alike(*both)
    assert is_recorded(both[0])
    assert len(both[0].run.recordings) <= 2


@pytest.mark.parametrize("name", HOSTS)
def test_the_others_are_the_business_of_the_host(name):
    both = [Training(HOSTS[name], captured) for captured in (True, False)]
    losses = [training.steps(20) for training in both]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert_alike(*both)
    assert not is_recorded(both[0])


@pytest.mark.parametrize("cycle", ["one", "cyclic"])
@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_schedules_of_momenta_and_betas_are_followed(name, cycle):
    both = [Training(OPTIMIZERS[name], captured) for captured in (True, False)]
    for training in both:
        if cycle == "one":
            schedule = OneCycleLR(training.optimizer, 0.1, total_steps=31)
        else:
            schedule = CyclicLR(training.optimizer, 0.001, 0.1, step_size_up=4)
        training.steps(30, lambda turn, s=schedule: s.step())
    assert_alike(*both)
    assert len(both[0].run.recordings) <= 2, both[0].run.report()


def test_an_option_that_decides_the_formula_is_recorded_anew():
    def change(training):
        def between(turn):
            group = training.optimizer.param_groups[0]
            if turn in (5, 12):
                group["weight_decay"] = 0.0 if group["weight_decay"] else 0.1
            if turn == 8:
                group["maximize"] = True

        return between

    both = [Training(OPTIMIZERS["adamw"], captured) for captured in (True, False)]
    for training in both:
        training.steps(20, change(training))
    assert_alike(*both)
    assert "numbers of an optimizer decide otherwise" in both[0].run.report()
    assert "an optimizer has other groups, options" in both[0].run.report()


def test_groups_have_numbers_of_their_own():
    def groups(net):
        return [
            {"params": [net[0].weight], "lr": 0.1},
            {"params": [net[0].bias, net[2].bias], "weight_decay": 0.0},
            {"params": [net[2].weight], "betas": (0.5, 0.9)},
        ]

    both = [Training(OPTIMIZERS["adamw"], captured, groups) for captured in (True, False)]
    for training in both:
        training.steps(10)
        training.optimizer.param_groups[1]["lr"] = 0.5
        training.steps(10)
    assert_alike(*both)
    assert is_recorded(both[0])


def test_parameters_may_have_taken_different_numbers_of_steps():
    both = [Training(OPTIMIZERS["adam"], captured) for captured in (True, False)]
    for training in both:
        training.steps(4)
        entry = next(iter(training.optimizer.state.values()))
        entry["step"].fill_(100.0)
        training.steps(8)
    assert_alike(*both)
    counts = [float(e["step"]) for e in both[0].optimizer.state.values()]
    assert counts == [108, 12, 12, 12]


@pytest.mark.parametrize("name", ["adam", "nesterov"])
def test_a_function_may_step_twice(name):
    both = [Training(OPTIMIZERS[name], captured, twice=True) for captured in (True, False)]
    for training in both:
        training.steps(9)
    assert_alike(*both)
    assert is_recorded(both[0])


def test_checkpoints_and_groups_may_come_in_between():
    both = [Training(OPTIMIZERS["adamw"], captured) for captured in (True, False)]
    for training in both:
        training.steps(5)
        kept = copy.deepcopy(training.state())
        training.steps(5)
        training.optimizer.load_state_dict(kept)
        training.steps(5)
        extra = nn.Parameter(torch.ones(2))
        training.optimizer.add_param_group({"params": [extra]})
        training.steps(3)
    assert_alike(*both)


def test_hooks_of_a_step_are_called():
    both = [Training(OPTIMIZERS["adamw"], captured) for captured in (True, False)]
    for training in both:
        training.steps(4)
        seen = []
        handle = training.optimizer.register_step_post_hook(lambda *args, s=seen: s.append(1))
        training.steps(4)
        assert len(seen) == 4
        handle.remove()
        training.steps(4)
        assert len(seen) == 4
    assert_alike(*both)


def test_parameters_without_gradients_are_left_alone():
    def groups(net):
        net[0].weight.requires_grad_(False)
        return net.parameters()

    both = [Training(OPTIMIZERS["adamw"], captured, groups) for captured in (True, False)]
    for training in both:
        training.steps(6)
        training.net[0].weight.requires_grad_(True)
        training.steps(6)
    assert_alike(*both)


class Careful(optim.Adam):
    """A user's optimizer on top of another."""

    def step(self, closure=None):
        self.calls = getattr(self, "calls", 0) + 1
        return super().step(closure)


def test_a_subclass_runs_its_own_code():
    training = Training(lambda p: Careful(p, lr=0.1), True)
    training.steps(7)
    assert training.optimizer.calls == 7


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(OPTIMIZERS)),
    st.lists(st.tuples(st.integers(1, 4), st.floats(0.0, 0.2)), min_size=1, max_size=5),
)
def test_rates_may_take_any_values(name, plan):
    both = [Training(OPTIMIZERS[name], captured) for captured in (True, False)]
    for training in both:
        for count, rate in plan:
            for group in training.optimizer.param_groups:
                tensor = isinstance(group["lr"], torch.Tensor)
                group["lr"] = torch.tensor(rate) if tensor else rate
            training.steps(count)
    for found, exact in zip(both[0].net.parameters(), both[1].net.parameters(), strict=True):
        np.testing.assert_allclose(
            found.detach().numpy(), exact.detach().numpy(), rtol=1e-3, atol=1e-5
        )


ON_GPUS = """
import ember as torch
from ember.capture.compiled import Captured
torch.cuda.simulate(1, "1GiB")
results = []
for captured in (False, True):
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, OPTION=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = Captured(step) if captured else step
    x = torch.randn(4, 8).cuda()
    for _ in range(12):
        loss = run(x)
        schedule.step()
    steps = [float(e["step"]) for e in optimizer.state.values()]
    assert steps == [12, 12], steps
    results.append(net.weight.detach().cpu())
assert any(r.program is not None for r in run.recordings), run.report()
torch.testing.assert_close(*results)
print("ok")
"""


@pytest.mark.parametrize("option", ["capturable", "fused", "foreach"])
def test_steps_on_a_simulated_gpu(option):
    code = ON_GPUS.replace("OPTION", option)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr
