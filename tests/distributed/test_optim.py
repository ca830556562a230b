"""ZeroRedundancyOptimizer: the same steps as without it, with the state shared out."""

import copy

import pytest

import ember as torch
from ember import nn
from ember.distributed.optim import ZeroRedundancyOptimizer


def models():
    torch.manual_seed(3)
    first = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    second = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    second.load_state_dict(first.state_dict())
    return first, second


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).pow(2).sum().backward()
        optimizer.step()


def steps(rank):
    model, whole = models()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    usual = torch.optim.Adam(whole.parameters(), lr=0.1)
    train(model, optimizer, 2)
    train(whole, usual, 2)
    for group in (*optimizer.param_groups, *usual.param_groups):
        group["lr"] = 0.01  # as a scheduler does
    train(model, optimizer, 1)
    train(whole, usual, 1)
    for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    count = len(optimizer.optim.state)
    with pytest.raises(RuntimeError, match="has not been consolidated"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=1)
    if rank == 1:
        state, wanted = optimizer.state_dict(), usual.state_dict()
        assert list(state["state"]) == list(wanted["state"])
        for number, values in wanted["state"].items():
            torch.testing.assert_close(state["state"][number]["exp_avg"], values["exp_avg"])
    again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.5)
    again.load_state_dict(copy.deepcopy(usual.state_dict()))
    train(model, again, 1)
    train(whole, usual, 1)
    for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    return count


def test_the_same_steps(processes):
    assert sum(processes(2, steps)) == 4


def test_alone(alone):
    model, _ = models()
    optimizer = ZeroRedundancyOptimizer(model[0].parameters(), torch.optim.SGD, lr=0.1)
    optimizer.add_param_group({"params": list(model[1].parameters()), "lr": 0.2})
    before = model[1].weight.detach().clone()
    train(model, optimizer, 1)
    torch.testing.assert_close(model[1].weight, before - 0.2 * model[1].weight.grad)
    assert [group["lr"] for group in optimizer.state_dict()["param_groups"]] == [0.1, 0.2]
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=1)
