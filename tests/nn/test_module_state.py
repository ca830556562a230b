"""State dicts: saving, loading, their hooks and messages."""

from collections import OrderedDict

import pytest

import ember as torch
from ember import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1, 2)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(2, 1))
        self.register_buffer("mean", torch.zeros(2))


def changed(state, **changes):
    state = OrderedDict(state)
    for name, value in changes.items():
        key = name.replace("__", ".")
        if value is None:
            del state[key]
        else:
            state[key] = value
    return state


def test_state_dict_shares_memory_and_is_detached():
    net = nn.Linear(2, 1)
    state = net.state_dict()
    assert type(state) is OrderedDict and type(state["weight"]) is torch.Tensor
    assert state["weight"].data_ptr() == net.weight.data_ptr()
    assert not state["weight"].requires_grad
    assert net.state_dict(keep_vars=True)["weight"] is net.weight
    assert state._metadata == {"": {"version": 1}}
    filled = {}
    assert net.state_dict(destination=filled, prefix="p.") is filled
    assert list(filled) == ["p.weight", "p.bias"]


def test_metadata_has_an_entry_for_every_module():
    assert list(Net().state_dict()._metadata) == ["", "first", "rest", "rest.0", "rest.1"]
    assert nn.BatchNorm1d(1).state_dict()._metadata[""] == {"version": 2}


def test_positional_arguments_warn():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated, use kwargs"):
        state = nn.Linear(1, 1).state_dict(OrderedDict(), "p.")
    assert list(state) == ["p.weight", "p.bias"]


def test_loading_copies_into_the_same_parameters():
    source, target = Net(), Net()
    weight = target.first.weight
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert result.missing_keys == [] and result.unexpected_keys == []
    assert target.first.weight is weight and torch.equal(weight, source.first.weight)


def test_strict_errors_list_everything():
    state = changed(
        Net().state_dict(), other=torch.zeros(1), mean=None, first__weight=torch.zeros(5)
    )
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict(state)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "mean". \n'
        '\tUnexpected key(s) in state_dict: "other". \n'
        "\tsize mismatch for first.weight: copying a param with shape torch.Size([5]) from "
        "checkpoint, the shape in current model is torch.Size([2, 1])."
    )


def test_unexpected_keys_inside_children():
    state = changed(Net().state_dict(), first__q=torch.zeros(1), rest__1__x=torch.zeros(1))
    result = Net().load_state_dict(state, strict=False)
    assert result == ([], ["first.q", "rest.1.x"])
    assert repr(result) == (
        "_IncompatibleKeys(missing_keys=[], unexpected_keys=['first.q', 'rest.1.x'])"
    )


def test_sizes_are_checked_even_when_not_strict():
    with pytest.raises(RuntimeError, match="size mismatch for mean"):
        Net().load_state_dict(changed(Net().state_dict(), mean=torch.zeros(3)), strict=False)


def test_values_that_are_no_tensors():
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict(changed(Net().state_dict(), mean=3))
    assert (
        'While copying the parameter named "mean", expected torch.Tensor or Tensor-like object '
        "from checkpoint but received <class 'int'>"
    ) in str(error.value)
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>."):
        Net().load_state_dict([1])


def test_scalars_of_old_checkpoints_have_one_dim():
    class Scalar(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(()))

    module = Scalar()
    module.load_state_dict({"w": torch.ones(1)})
    assert module.w.item() == 1.0


def test_assign_takes_the_given_tensors_over():
    net = nn.Linear(1, 1)
    bias = nn.Parameter(torch.ones(1), requires_grad=False)
    state = {"weight": torch.ones(1, 1, dtype=torch.float64), "bias": bias}
    net.load_state_dict(state, assign=True)
    assert isinstance(net.weight, nn.Parameter) and net.weight.requires_grad
    assert net.weight.dtype == torch.float64
    assert net.weight.data_ptr() == state["weight"].data_ptr()
    assert net.bias is bias and bias.requires_grad


def test_assign_of_one_load_does_not_stick_to_the_checkpoint():
    state = nn.Linear(1, 1).state_dict()
    nn.Linear(1, 1).load_state_dict(state, assign=True)
    net = nn.Linear(1, 1)
    weight = net.weight
    net.load_state_dict(state)
    assert net.weight is weight


def test_assigning_integers_to_a_trained_parameter():
    with pytest.raises(RuntimeError, match='While copying the parameter named "weight", whose dim'):
        nn.Linear(1, 1, bias=False).load_state_dict(
            {"weight": torch.ones(1, 1, dtype=torch.int64)}, assign=True
        )


def test_loading_into_meta_warns():
    net = nn.Linear(1, 1, bias=False, device="meta")
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter"):
        net.load_state_dict(nn.Linear(1, 1, bias=False).state_dict())
    assert net.weight.is_meta


def test_extra_state():
    class Counted(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = Counted(), Counted()
    source.count = 3
    assert source.state_dict() == {"_extra_state": {"count": 3}}
    target.load_state_dict(source.state_dict())
    assert target.count == 3
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "_extra_state"'):
        target.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "_extra_state"'):
        nn.Module().load_state_dict({"_extra_state": 1})
    with pytest.raises(RuntimeError, match="should never be called"):
        nn.Module().get_extra_state()


def test_state_dict_hooks():
    net, seen = nn.Sequential(nn.Linear(1, 1)), []
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))

    def rename(module, state, prefix, metadata):
        state[prefix + "new"] = state.pop(prefix + "bias")

    net[0].register_state_dict_post_hook(rename)
    assert list(net.state_dict()) == ["0.weight", "0.new"] and seen == [("0.", False)]

    def returns(module, state, prefix, metadata):
        return state

    bad = nn.Linear(1, 1)
    bad.register_state_dict_post_hook(returns)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        bad.state_dict()
    other = nn.Linear(1, 1)
    other._register_state_dict_hook(lambda m, state, prefix, metadata: OrderedDict(z=1))
    assert other.state_dict() == {"z": 1}


def test_load_state_dict_pre_hook_may_rename_keys():
    net = nn.Linear(1, 1)

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        assert module is net and strict and prefix == ""
        state["weight"] = state.pop("old")

    net.register_load_state_dict_pre_hook(rename)
    given = {"old": torch.full((1, 1), 2.0), "bias": torch.zeros(1)}
    net.load_state_dict(given)
    assert net.weight.item() == 2.0 and "old" in given


def test_load_state_dict_post_hook_may_forgive():
    net = nn.Linear(1, 1)

    def forgive(module, keys):
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    handle = net.register_load_state_dict_post_hook(forgive)
    assert repr(net.load_state_dict({"z": 1})) == "<All keys matched successfully>"
    handle.remove()
    net.register_load_state_dict_post_hook(lambda module, keys: 3)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        net.load_state_dict(net.state_dict())


def test_batch_norm_reads_checkpoints_without_a_count():
    old = OrderedDict(
        (key, value)
        for key, value in nn.BatchNorm1d(2).state_dict().items()
        if key != "num_batches_tracked"
    )
    assert nn.BatchNorm1d(2).load_state_dict(old) == ([], [])
    old._metadata = {"": {"version": 2}}
    with pytest.raises(
        RuntimeError, match='Missing key\\(s\\) in state_dict: "num_batches_tracked"'
    ):
        nn.BatchNorm1d(2).load_state_dict(old)


def test_prefix_is_consumed():
    state = nn.Sequential(nn.Linear(1, 1)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "0.")
    assert list(state) == ["weight", "bias"]
    nn.Linear(1, 1).load_state_dict(state)
