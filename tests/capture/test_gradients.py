"""Compiled functions whose results need gradients: backward passes outside of them are replayed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember import nn
from ember.capture.compiled import Captured
from ember.nn import functional as F
from tests.capture.test_captured import MODELS, OPTIMIZERS


def values(*shape, seed=0, grad=False):
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_(grad)


def layer(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))


class Counting(nn.Module):
    """A module that counts how often its Python runs."""

    calls = 0

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *args):
        Counting.calls += 1
        return self.net(*args)


def train(model, optimizer, compiled, steps=25):
    torch.manual_seed(0)
    net = model()
    run = Captured(Counting(net)) if compiled else net
    optimizer = OPTIMIZERS[optimizer](net.parameters())
    data = torch.Generator().manual_seed(1)
    losses, Counting.calls = [], 0
    for _ in range(steps):
        x = torch.randn(6, 12, generator=data)
        y = torch.randint(0, 4, (6,), generator=data)
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if compiled:
        assert Counting.calls <= 2, run.report()
    return losses, [p.detach() for p in net.parameters()]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_of_a_compiled_module_is_the_same(model, optimizer):
    plain, compiled = (train(model, optimizer, c) for c in (False, True))
    assert compiled[0] == pytest.approx(plain[0], rel=5e-5)
    for found, exact in zip(compiled[1], plain[1], strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("history", [False, True])
def test_arguments_get_gradients(history):
    net = layer()
    run = Captured(net)
    for turn in range(6):
        results = []
        for function in (run, net):
            net.zero_grad()
            x = values(3, 4, seed=turn, grad=True)
            h = net[0](x) if history else x  # shares parameters with the function
            function(h).pow(2).sum().backward()
            results.append([x.grad, *(p.grad for p in net.parameters())])
        for found, exact in zip(*results, strict=True):
            torch.testing.assert_close(found, exact)
    assert run.recordings[0].graph.program is not None, run.report()
    assert "planned" in run.report()


def test_a_second_run_before_backward():
    net = layer()
    run = Captured(net)
    for turn in range(5):
        x, y = values(3, 4, seed=turn), values(3, 4, seed=turn + 50)
        results = []
        for function in (run, net):
            net.zero_grad()
            first, second = function(x), function(y)
            (first.sum() * 2).backward()
            second.pow(2).sum().backward()
            results.append([p.grad for p in net.parameters()])
        for found, exact in zip(*results, strict=True):
            torch.testing.assert_close(found, exact)


def test_a_result_used_within_a_longer_graph():
    net, head = layer(), nn.Linear(2, 2)
    run = Captured(net)
    for turn in range(4):
        results = []
        for function in (run, net):
            net.zero_grad()
            head.zero_grad()
            out = function(values(3, 4, seed=turn))
            (head(out) * out.detach()).sum().backward()
            results.append([p.grad for p in (*net.parameters(), *head.parameters())])
        for found, exact in zip(*results, strict=True):
            torch.testing.assert_close(found, exact)


def test_backward_twice():
    net = layer()
    run = Captured(net)
    for turn in range(4):
        net.zero_grad()
        out = run(values(3, 4, seed=turn)).sum()
        out.backward(retain_graph=True)
        once = net[0].weight.grad.clone()
        assert run(values(3, 4)).grad_fn is not None  # the first still waits: this one is eager
        out.backward()
        torch.testing.assert_close(net[0].weight.grad, once * 2)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            out.backward()


def test_gradients_of_gradients():
    net = layer()
    run = Captured(net)
    for turn in range(4):
        results = []
        for function in (run, net):
            net.zero_grad()
            x = values(3, 4, seed=turn, grad=True)
            (slope,) = torch.autograd.grad(function(x * 1).sum(), x, create_graph=True)
            (slope.pow(2).sum() + function(x).sum()).backward()
            results.append([x.grad, *(p.grad for p in net.parameters())])
        for found, exact in zip(*results, strict=True):
            torch.testing.assert_close(found, exact)


def test_gradients_of_gradients_do_not_pass_random_numbers():
    net = nn.Sequential(layer(), nn.Dropout(0.5))
    run = Captured(net)
    x = values(3, 4, grad=True)
    for _ in range(2):
        run(x).sum().backward()
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(run(x).sum(), x, create_graph=True)


def test_a_parameter_that_is_written_in_between_is_an_error():
    net = layer()
    run = Captured(net)
    for _ in range(2):
        run(values(3, 4)).sum().backward()
    out = run(values(3, 4, seed=1)).sum()
    with torch.no_grad():
        net[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_gradients_add_up_and_hooks_are_called_once():
    net, seen = layer(), []
    net[0].bias.register_hook(lambda g: seen.append(1) or g * 2)
    run = Captured(net)
    for function in (run, net):
        net.zero_grad()
        seen.clear()
        for turn in range(5):
            function(values(3, 4, seed=turn)).sum().backward()
        assert len(seen) == 5
        if function is run:
            before = [p.grad.clone() for p in net.parameters()]
    for found, exact in zip(before, net.parameters(), strict=True):
        torch.testing.assert_close(found, exact.grad)


def test_several_results_some_of_them_without_gradients():
    net = layer()

    def function(x):
        h = net[0](x)
        return {"h": h, "out": net[2](h.tanh()), "best": h.argmax(1), "plain": h.detach(), "n": 3}

    run = Captured(function)
    for turn in range(4):
        x, results = values(3, 4, seed=turn), []
        for one in (run, function):
            net.zero_grad()
            found = one(x)
            assert not found["plain"].requires_grad
            assert found["n"] == 3
            found["out"].sum().backward()
            results.append([found["best"], found["plain"], *(p.grad for p in net.parameters())])
        for found, exact in zip(*results, strict=True):
            torch.testing.assert_close(found, exact)


def test_parameters_that_are_frozen_get_none():
    net = layer()
    run = Captured(net)
    for turn in range(8):
        net[0].weight.requires_grad_(turn % 4 < 2)
        net.zero_grad()
        run(values(3, 4, seed=turn)).sum().backward()
        assert (net[0].weight.grad is None) == (turn % 4 >= 2)
        assert net[2].weight.grad is not None


def test_runs_whose_backward_never_comes_are_eager_in_the_end():
    net = Counting(layer())
    run = Captured(net)
    for turn in range(8):
        x = values(3, 4, seed=turn)
        torch.testing.assert_close(run(x), net(x))
    assert "no backward pass came" in run.report()


def test_validation_in_between_leaves_no_trace():
    net = layer()
    run = Captured(net)
    for turn in range(6):
        x, y = values(3, 4, seed=turn), values(3, 4, seed=turn + 20)
        net.zero_grad()
        out = run(x)
        with torch.no_grad():
            torch.testing.assert_close(run(y), net(y))
        out.pow(2).sum().backward()
        found = [p.grad for p in net.parameters()]
        net.zero_grad()
        net(x).pow(2).sum().backward()
        for grad, p in zip(found, net.parameters(), strict=True):
            torch.testing.assert_close(grad, p.grad)


def test_a_backward_pass_in_a_recording_around_it():
    net, head = layer(), nn.Linear(2, 2)
    inner = Captured(net)

    def step(x):
        net.zero_grad()
        head.zero_grad()
        loss = head(inner(x)).pow(2).sum()
        loss.backward()
        return loss.detach()

    outer = Captured(step)
    for turn in range(4):
        x = values(3, 4, seed=turn)
        found = outer(x), net[0].weight.grad.clone()
        exact = step(x), net[0].weight.grad.clone()
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other)


def test_compiled_modules():
    net = layer()
    compiled = torch.compile(net)
    for turn in range(4):
        net.zero_grad()
        compiled(values(3, 4, seed=turn)).sum().backward()
        found = net[0].weight.grad
        net.zero_grad()
        net(values(3, 4, seed=turn)).sum().backward()
        torch.testing.assert_close(found, net[0].weight.grad)


def test_sparse_gradients_run_eagerly():
    net = nn.Embedding(5, 3, sparse=True)
    run = Captured(net)
    for _ in range(4):
        net.weight.grad = None
        run(torch.tensor([1, 3, 1])).sum().backward()
        assert net.weight.grad.is_sparse
        assert net.weight.grad.to_dense()[:, 0].tolist() == [0, 2, 0, 1, 0]
    assert "sparse" in run.report()


BINARY = [
    lambda a, b: a + b,
    lambda a, b: a * b - 0.5,
    lambda a, b: torch.where(a > b, a * 0.5, b),
    lambda a, b: torch.softmax(a, 1) + b,
    lambda a, b: a @ b * 0.1,
    lambda a, b: a.t() - b,
    lambda a, b: a.sum(0) * 0.1 + b,
    lambda a, b: torch.cat([a[:4], b[4:]]),
    lambda a, b: a.neg().mul_(b),
    lambda a, b: F.layer_norm(a * b, (8,)),
    lambda a, b: a.detach() * b,
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 10)] * 3), min_size=1, max_size=8),
    st.sampled_from(["leaf", "history", "none"]),
)
def test_programs_have_the_same_gradients(steps, kind):
    weight = values(8, 8, seed=5, grad=True)

    def function(x, y):
        made = [x, y, weight]
        for which, first, second in steps:
            made.append(BINARY[which](made[-1 - first % len(made)], made[-1 - second % len(made)]))
        return made[-1], made[len(made) // 2] * 1

    run = Captured(function)
    for seed in range(4):
        results = []
        for one in (run, function):
            weight.grad = None
            x, y = values(8, 8, seed=seed, grad=kind != "none"), values(8, 8, seed=seed + 9)
            h = x * 2 if kind == "history" else x
            a, b = one(h, y)
            total = (a * a).mean() + (b * 3).sum()
            if total.requires_grad:
                total.backward()
            results.append([a.detach(), b.detach(), x.grad, weight.grad])
        for found, exact in zip(*results, strict=True):
            assert (found is None) == (exact is None)
            if exact is not None:
                torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)
