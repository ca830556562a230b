"""State dicts by names, and modules that compute their activations again."""

import pytest

import ember as torch
from ember import nn
from ember.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from ember.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)


def trained(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer


def test_state_by_names(alone):
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    optimizer = trained(model)
    weights, state = get_state_dict(model, optimizer)
    assert list(weights) == ["weight", "bias"]
    assert list(state["state"]) == ["weight", "bias"]
    assert state["param_groups"][0]["params"] == ["weight", "bias"]
    other = nn.Linear(2, 1)
    fresh = torch.optim.Adam([other.bias, other.weight], lr=0.5)  # another order
    keys = set_state_dict(other, fresh, model_state_dict=weights, optim_state_dict=state)
    assert not keys.missing_keys
    torch.testing.assert_close(other.weight, model.module.weight)
    assert fresh.param_groups[0]["lr"] == 0.1
    torch.testing.assert_close(
        fresh.state[other.weight]["exp_avg"], optimizer.state[model.module.weight]["exp_avg"]
    )


def test_options():
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    options = StateDictOptions(ignore_frozen_params=True, cpu_offload=True)
    assert list(get_model_state_dict(model, options=options)) == ["weight"]
    lenient = StateDictOptions(strict=False)
    assert set_model_state_dict(model, {}, options=lenient).missing_keys == ["weight", "bias"]
    with pytest.raises(RuntimeError, match="Missing key"):
        set_model_state_dict(model, {})


def from_first(rank):
    model = nn.Linear(2, 1)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    weights = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}
    set_model_state_dict(model, weights if rank == 0 else {}, options=options)
    return model.weight.tolist(), model.bias.tolist()


def test_from_the_first_process(processes):
    assert processes(2, from_first) == [([[1, 2]], [3])] * 2


@pytest.mark.parametrize("kind", list(CheckpointImpl))
def test_wrapped_modules(kind):
    calls = []

    class Counted(nn.Linear):
        def forward(self, x):
            calls.append(1)
            return super().forward(x)

    inner = Counted(2, 2)
    module = checkpoint_wrapper(inner, kind)
    x = torch.ones(1, 2, requires_grad=True)
    module(x).sum().backward()
    assert len(calls) == 2  # once in forward, once in backward
    torch.testing.assert_close(x.grad, inner.weight.detach().sum(0, keepdim=True))
    assert inner.weight.grad.tolist() == [[1, 1], [1, 1]]
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]
    assert list(module.state_dict()) == ["weight", "bias"]
    module.load_state_dict({"weight": torch.zeros(2, 2), "bias": torch.ones(2)})
    assert inner.bias.tolist() == [1, 1]
    assert module.in_features == 2


def test_wrapping_parts_of_a_model():
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
    kinds = [type(m) for m in (model[0], model[1], model[1][0], model[1][1])]
    assert kinds == [CheckpointWrapper, nn.Sequential, CheckpointWrapper, nn.ReLU]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
