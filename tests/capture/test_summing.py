"""Sums over rows that formulas make beside their results."""

import pytest

import ember as torch
from ember.backends.cpu import column_sums
from ember.capture.compiled import Captured
from ember.nn import functional as F


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def steps(function, *arguments, near=1e-5):
    """The names of a recording's steps; results are compared with the function's."""
    run = Captured(function)
    for turn in range(3):
        given = [a + turn for a in arguments]
        found, exact = run(*given), function(*given)
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other, rtol=near, atol=near * 10)
    program = run.recordings[0].program
    assert program is not None, run.report()
    return [name.removeprefix("call ").strip() for name in program.names]


@pytest.mark.parametrize("shape", [(16, 8), (100, 17), (1000, 33), (3, 70, 300), (2, 5, 9, 64)])
def test_a_formula_sums_what_it_reads_and_makes(shape):
    def function(x):
        made = torch.sigmoid(x * 2) * x
        dims = tuple(range(x.dim() - 1))
        return made * 1, made.sum(dims), x.sum(dims, keepdim=True), (x.exp() * x).sum(dims)

    found = steps(function, values(*shape) * 0.1, near=3e-5)
    assert "sum" not in found and any(name.endswith("+sum") for name in found)


def test_what_is_only_summed_is_not_stored():
    found = steps(lambda x: ((x.exp() * x).sum(0),), values(200, 40) * 0.1, near=3e-5)
    assert found == ["exp+mul+sum"]


def test_the_gradients_of_a_norm_are_one_kernel():
    weight, bias = values(48, seed=1), values(48, seed=2)

    def function(x, slope):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
        made = F.layer_norm(leaves[0], (48,), leaves[1], leaves[2])
        return tuple(g * 1 for g in torch.autograd.grad(made, leaves, slope))

    found = steps(function, values(6, 50, 48), values(6, 50, 48, seed=3), near=1e-5)
    assert sum("standardized_backward" in name for name in found) == 1


@pytest.mark.parametrize("activation", [F.relu, F.gelu, torch.tanh])
def test_gradients_of_biases(activation):
    first, second = torch.nn.Linear(20, 40), torch.nn.Linear(40, 24)
    parameters = [*first.parameters(), *second.parameters()]

    def function(x, slope):
        x = x.clone().requires_grad_()
        made = second(activation(first(x)))
        return torch.autograd.grad(made * 2, [x, *parameters], slope)

    found = steps(function, values(7, 30, 20), values(7, 30, 24, seed=1))
    assert sum(name.endswith("+sum") or "+sum+" in name for name in found) == 2


def test_rows_that_change_in_between_are_summed_before():
    def function(x):
        x = x.clone()
        made = x.exp() + 1
        before = x.sum(0)
        x.mul_(2)
        return made * 2, before * 1, x.sum(0), (x.exp() * made).sum(0)

    steps(function, values(40, 16) * 0.1)


def test_sums_that_are_read_at_once():
    def function(x):
        total = x.sum(0)
        made = x * total
        more = made.sum(0)
        return (made - more).exp().sum(0), total * 1, more * 1

    steps(function, values(40, 16) * 0.01, near=3e-5)


def test_a_sum_into_an_argument_and_into_state():
    state = torch.zeros(16)

    def function(x):
        y = torch.tanh(x) * x
        state.copy_(y.sum(0))
        return y * 1, state * 2

    steps(function, values(64, 16))


def test_many_rows_are_summed_in_groups_on_several_threads(monkeypatch):
    monkeypatch.setattr(column_sums, "GRAIN", 1)
    x = torch.full((100_000, 8), 0.1)
    run = Captured(lambda x: ((x * 1.5 + 0.25).sum(0),))
    for _ in range(3):
        (found,) = run(x)
    torch.testing.assert_close(found, torch.full((8,), 40_000.0), rtol=1e-5, atol=0)


def test_numbers_that_change_reach_every_group():
    weight = torch.nn.Parameter(values(100, 16))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step():
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
        return weight.sum(0)

    run = Captured(step)
    for _ in range(4):
        before = weight.detach().clone()
        optimizer.param_groups[0]["lr"] *= 0.5
        found = run()
        wanted = (before - optimizer.param_groups[0]["lr"] * 2 * before).sum(0)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_sum_is_not_written_over_what_is_still_read():
    def function(x):
        for _ in range(3):
            x = x + x.sum(0) * 0.1
        return (x * 1,)

    steps(function, values(32, 16) * 0.1)
