"""The base class: groups and checks, zero_grad, hooks, checkpoints, copies, representation."""

import copy
import pickle
import re

import pytest

import ember
from ember import nn
from ember.optim import SGD, Adam, Optimizer
from ember.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)


def weight(*shape):
    return nn.Parameter(ember.ones(*(shape or (2,))))


BAD = [
    (lambda: SGD(ember.ones(2)), TypeError, "params argument given to the optimizer should be an"),
    (lambda: SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda: SGD([1]), TypeError, "can only optimize Tensors, but one of the params is int"),
    (
        lambda: SGD([None]),
        TypeError,
        "can only optimize Tensors, but one of the params is NoneType",
    ),
    (lambda: SGD("abc"), TypeError, "can only optimize Tensors, but one of the params is str"),
    (lambda: SGD([weight() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: SGD([{"params": {weight()}}]), TypeError, "organized in ordered collections"),
    (lambda: SGD([{"lr": 1}]), KeyError, "params"),
    (lambda: SGD([{"params": [weight()]}, weight()]), TypeError, "param_group must be a dict"),
    (lambda: SGD([("a", weight()), weight()]), ValueError, "Some param names are missing"),
    (
        lambda: SGD([{"params": [("a", weight())]}, {"params": [weight()]}]),
        ValueError,
        "cannot add param group without names to the optimizer",
    ),
    (
        lambda: SGD([weight()]).add_param_group({"params": [("a", weight())]}),
        ValueError,
        "cannot add param group with names to the optimizer",
    ),
    (
        lambda: Optimizer([{"params": [weight()]}], {"lr": required}),
        ValueError,
        "parameter group didn't specify a value of required optimization parameter lr",
    ),
]


@pytest.mark.parametrize(("make", "kind", "message"), BAD)
def test_bad_parameters(make, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        make()


def test_a_parameter_in_two_groups():
    shared = weight()
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        SGD([{"params": [shared]}, {"params": [weight(), shared]}])
    with pytest.warns(UserWarning, match="contains a parameter group with duplicate parameters"):
        SGD([shared, shared])


def test_a_refused_group_changes_nothing():
    optimizer = SGD([weight()], lr=0.1)
    group = {"params": [optimizer.param_groups[0]["params"][0]], "momentum": 0.5}
    with pytest.raises(ValueError):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1 and set(group) == {"params", "momentum"}


def test_groups_take_defaults_and_keep_their_own_options():
    optimizer = SGD([{"params": weight(), "lr": 0.5, "note": "mine"}], lr=0.1)
    optimizer.add_param_group({"params": (weight(), weight()), "momentum": 0.9})
    first, second = optimizer.param_groups
    assert (first["lr"], first["momentum"], first["note"]) == (0.5, 0, "mine")
    assert (second["lr"], second["momentum"], len(second["params"])) == (0.1, 0.9, 2)


def test_names_are_kept_and_saved():
    layer = nn.Linear(2, 1)
    optimizer = SGD(layer.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert "param_names: ['weight', 'bias']" in repr(optimizer)
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["param_names"] == ["weight", "bias"]
    del saved["param_groups"][0]["param_names"]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


def test_representation():
    assert repr(SGD([weight()], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n"
        "    fused: None\n    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n"
        "    weight_decay: 0\n)"
    )


def test_zero_grad():
    p, idle = weight(), weight()
    optimizer = SGD([p, idle])
    p.grad = grad = ember.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad and grad.tolist() == [0.0, 0.0] and idle.grad is None
    optimizer.zero_grad()
    assert p.grad is None
    (p**2).sum().backward(create_graph=True)
    optimizer.zero_grad(False)
    assert p.grad.grad_fn is None and p.grad.tolist() == [0.0, 0.0]


def test_the_base_class_defines_no_step():
    with pytest.raises(NotImplementedError):
        Optimizer([weight()], {}).step()


def test_step_returns_what_the_closure_returns():
    p = weight()
    optimizer = SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = p.sum()
        loss.backward()
        return loss

    with ember.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == [0.5, 0.5]
    assert optimizer.step() is None and p.tolist() == [0.0, 0.0]


def test_step_writes_in_place_and_counts_the_write():
    p = weight()
    before, address = p._version, p.data_ptr()
    p.grad = ember.ones(2)
    SGD([p], lr=0.5).step()
    assert p._version > before and p.data_ptr() == address
    assert p.is_leaf and p.requires_grad and p.grad.tolist() == [1.0, 1.0]


def test_step_hooks():
    p, calls = weight(), []
    p.grad = ember.ones(2)
    optimizer = SGD([p], lr=0.1)
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: calls.append(("pre", len(a), k))),
        optimizer.register_step_post_hook(lambda o, a, k: calls.append(("post", len(a), k))),
        register_optimizer_step_pre_hook(lambda o, a, k: calls.append("global pre")),
        register_optimizer_step_post_hook(lambda o, a, k: calls.append("global post")),
    ]
    optimizer.step()
    assert calls == ["global pre", ("pre", 1, {}), ("post", 1, {}), "global post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4
    optimizer.register_step_pre_hook(lambda o, a, k: ((o, lambda: "other"), {}))
    assert optimizer.step() == "other"
    optimizer.register_step_pre_hook(lambda o, a, k: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_state_dict_hooks():
    calls = []
    optimizer = SGD([weight()], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("pre"))
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("before"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "extra": 1})
    saved = optimizer.state_dict()
    assert calls == ["before", "pre"] and saved["extra"] == 1

    def halved(o, saved):
        groups = [{**group, "lr": group["lr"] / 2} for group in saved["param_groups"]]
        return {**saved, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(halved)
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.05 and calls[-1] == "loaded"


def test_state_dict_of_numbers():
    a, b = weight(), weight(3)
    optimizer = Adam([{"params": [a]}, {"params": [b], "lr": 0.5}])
    b.grad = ember.ones(3)
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"] and list(saved["state"]) == [1]
    assert [group["params"] for group in saved["param_groups"]] == [[0], [1]]
    assert saved["state"][1]["exp_avg"] is optimizer.state[b]["exp_avg"]
    step = saved["state"][1]["step"]
    assert step.dtype == ember.float32 and step.shape == () and step.device.type == "cpu"


def test_load_state_dict_casts_to_the_parameters():
    source = weight()
    first = Adam([source], lr=0.5)
    source.grad = ember.ones(2)
    first.step()
    target = nn.Parameter(ember.ones(2, dtype=ember.float64))
    second = Adam([target])
    second.load_state_dict(first.state_dict())
    state = second.state[target]
    assert state["exp_avg"].dtype == ember.float64 and state["step"].dtype == ember.float32
    assert second.param_groups[0]["lr"] == 0.5 and second.param_groups[0]["params"][0] is target


def test_load_state_dict_refuses_other_groups():
    optimizer = SGD([weight()])
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match="has a different number of parameter groups"):
        optimizer.load_state_dict({**saved, "param_groups": []})
    wrong = [{**saved["param_groups"][0], "params": [0, 1]}]
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({**saved, "param_groups": wrong})
    assert len(optimizer.param_groups[0]["params"]) == 1


def test_checkpoints_of_older_versions():
    """New options get their old meaning; a step that was a number becomes a tensor."""
    p = weight()
    optimizer = Adam([p])
    p.grad = ember.ones(2)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    for name in ("maximize", "foreach", "capturable", "differentiable", "fused"):
        del saved["param_groups"][0][name]
    saved["state"][0]["step"] = 7
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 8
    assert optimizer.param_groups[0]["maximize"] is False


def test_copies_and_pickles():
    p = weight()
    p.grad = ember.ones(2)
    optimizer = Adam([p], lr=0.1)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (mine,) = other.param_groups[0]["params"]
        assert mine is not p and other.state[mine]["step"].item() == 1
        mine.grad = ember.ones(2)
        other.step()
        assert other.state[mine]["step"].item() == 2 and optimizer.state[p]["step"].item() == 1


def test_a_subclass_of_ones_own():
    class Sign(Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @ember.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self.state[p]["count"] = self.state[p].get("count", 0) + 1
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    p = weight()
    p.grad = ember.tensor([5.0, -5.0])
    optimizer = Sign([p], 0.25)
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    optimizer.step()
    assert p.tolist() == [0.75, 1.25] and seen == [1]
    again = Sign([p], 1.0)
    again.load_state_dict(optimizer.state_dict())
    assert again.state[p] == {"count": 1} and again.param_groups[0]["lr"] == 0.25


def test_tensors_are_grouped_by_device_and_dtype():
    a, b, c = ember.ones(1), ember.ones(1, dtype=ember.float64), ember.ones(2)
    grouped = Optimizer._group_tensors_by_device_and_dtype([[a, b, c], [c, b, a]])
    assert list(grouped) == [(a.device, ember.float32), (a.device, ember.float64)]
    lists, indices = grouped[a.device, ember.float32]
    assert indices == [0, 2] and lists[0][1] is c and lists[1][0] is c
