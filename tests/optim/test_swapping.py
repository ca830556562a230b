"""`swap_in_optimizer_params_and_state`: other parameters and state for a while."""

import copy

import pytest

import ember as torch

swap = torch.optim.swap_in_optimizer_params_and_state


@pytest.fixture
def trained():
    params = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))]
    groups = [{"params": [params[0]], "lr": 0.1}, {"params": [params[1]], "lr": 0.2}]
    optimizer = torch.optim.Adam(groups)
    sum((p * p).sum() for p in params).backward()
    optimizer.step()
    return optimizer, params


def _others():
    return {"a": torch.full((3,), 5.0), "b": torch.full((2,), 7.0)}


def test_a_step_moves_the_others_and_leaves_the_optimizer(trained):
    optimizer, params = trained
    others, state = _others(), copy.deepcopy(optimizer.state_dict())
    before = [p.tolist() for p in params]
    state["param_groups"][0]["lr"] = 0.5
    with swap(optimizer, others, state) as given:
        assert given is None
        assert optimizer.param_groups[0]["lr"] == 0.5
        assert optimizer.param_groups[0]["params"][0] is others["a"]
        assert optimizer.state[others["a"]]["exp_avg"] is state["state"][0]["exp_avg"]
        for value in others.values():
            value.grad = torch.ones_like(value)
        optimizer.param_groups[1]["lr"] = 9.0
        optimizer.step()
        optimizer.state[others["a"]]["new"] = 1
    assert [round(x, 4) for x in others["a"].tolist()] == [4.5339] * 3
    assert [round(x, 4) for x in others["b"].tolist()] == [-1.3896] * 2
    assert state["state"][0]["step"].item() == 2
    assert "new" not in state["state"][0]
    assert [p.tolist() for p in params] == before
    assert optimizer.state[params[0]]["step"].item() == 1
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]
    assert optimizer.param_groups[0]["params"][0] is params[0]


def test_the_optimizer_is_restored_after_an_error(trained):
    optimizer, params = trained
    with pytest.raises(KeyError, match="x"), swap(optimizer, _others(), optimizer.state_dict()):
        raise KeyError("x")
    assert optimizer.param_groups[0]["params"][0] is params[0]
    assert set(optimizer.state) == set(params)


def test_what_does_not_fit(trained):
    optimizer, _ = trained
    state = optimizer.state_dict()
    for others, given, message in (
        ({"a": torch.ones(3)}, state, "to match optimizer.param_groups ordering"),
        (_others(), {"state": state["state"]}, "to be a list of param-group dicts"),
        (_others(), {**state, "param_groups": []}, "a different number of parameter groups"),
    ):
        with pytest.raises(RuntimeError, match=message), swap(optimizer, others, given):
            pass
    fresh = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    other = swap(fresh, {"a": torch.ones(2)}, fresh.state_dict())
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"), other:
        pass
