"""Hooks of modules: forward, backward, global, and the handles that remove them."""

import pytest

import ember as torch
from ember import nn
from ember.nn.modules import module as module_file


class Double(nn.Module):
    def forward(self, x, y=None, *, k=1):
        return x * 2 if y is None else (x * 2, y * k)


class Broken(nn.Module):
    def forward(self, x):
        raise ValueError("forward failed")


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_forward_pre_hook_replaces_arguments():
    module = Double()
    with module.register_forward_pre_hook(lambda m, args: args[0] * 10):
        assert module(torch.ones(1)).item() == 20
    with module.register_forward_pre_hook(lambda m, args: (args[0], args[0])):
        assert isinstance(module(torch.ones(1)), tuple)
    hook = lambda m, args, kwargs: ((args[0],), {"y": args[0], "k": kwargs["k"] + 1})  # noqa: E731
    with module.register_forward_pre_hook(hook, with_kwargs=True):
        assert module(torch.ones(1), k=4)[1].item() == 5
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        module(torch.ones(1))


def test_forward_hook_replaces_output_and_sees_kwargs():
    module, seen = Double(), []
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: out + 1)
    assert module(torch.ones(1), k=3).item() == 3 and seen == [{"k": 3}]


def test_order_of_hooks_and_prepend():
    module, order = Double(), []
    module.register_forward_pre_hook(lambda *a: order.append("a"))
    module.register_forward_pre_hook(lambda *a: order.append("b"), prepend=True)
    module.register_forward_hook(lambda *a: order.append("c"))
    module.register_forward_hook(lambda *a: order.append("d"), prepend=True)
    module(torch.ones(1))
    assert order == ["b", "a", "d", "c"]


def test_always_call_runs_after_an_error():
    module, seen = Broken(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append("not reached"))
    with pytest.raises(ValueError, match="forward failed"):
        module(torch.ones(1))
    assert seen == [None]

    def fails(*args):
        raise KeyError("hook")

    module.register_forward_hook(fails, always_call=True)
    with (
        pytest.warns(UserWarning, match="always_call=True`` raised an exception that was silenced"),
        pytest.raises(ValueError, match="forward failed"),
    ):
        module(torch.ones(1))


def test_always_call_hook_after_a_failing_hook_sees_the_output():
    module, seen = Double(), []

    def fails(*args):
        raise KeyError("hook")

    module.register_forward_hook(fails)
    module.register_forward_hook(lambda m, args, out: seen.append(out.item()), always_call=True)
    with pytest.raises(KeyError):
        module(torch.ones(1))
    assert seen == [2.0]


def test_handles_remove_once_and_as_context():
    module = Double()
    handle = module.register_forward_hook(lambda *a: None, with_kwargs=True, always_call=True)
    assert list(module._forward_hooks) == [handle.id]
    assert handle.id in module._forward_hooks_with_kwargs
    handle.remove()
    handle.remove()
    assert not module._forward_hooks and not module._forward_hooks_with_kwargs
    assert not module._forward_hooks_always_called
    with module.register_forward_hook(lambda *a: None):
        assert len(module._forward_hooks) == 1
    assert not module._forward_hooks


def test_full_backward_hook_sees_and_replaces_gradients():
    module, seen = Double(), []

    def hook(m, grad_input, grad_output):
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 5,)

    module.register_full_backward_hook(hook)
    x = leaf(1.0, 2.0)
    module(x).sum().backward()
    assert seen == [([2.0, 2.0], [1.0, 1.0])] and x.grad.tolist() == [10.0, 10.0]


def test_full_backward_pre_hook_replaces_grad_output():
    module, seen = Double(), []
    module.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 3,))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    x = leaf(1.0)
    module(x).sum().backward()
    assert seen == [[3.0]] and x.grad.tolist() == [6.0]


def test_full_backward_hook_places_of_tensors():
    module, seen = Double(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x = leaf(1.0)
    module(x, 3.0)[0].sum().backward()
    grad_input, grad_output = seen.pop()
    assert grad_input[0].tolist() == [2.0] and grad_input[1] is None
    assert grad_output[0].tolist() == [1.0] and grad_output[1] is None
    y = leaf(1.0)
    module(x, y)[0].sum().backward()
    grad_input, grad_output = seen.pop()
    assert grad_output[1] is None and grad_input[1].tolist() == [0.0] and y.grad.tolist() == [0.0]


def test_full_backward_hook_without_input_gradients():
    module, seen = nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(
        UserWarning, match="Full backward hook is firing when gradients are computed"
    ):
        module(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_full_backward_hook_errors_and_warnings():
    module = Double()
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="returned an invalid number of grad_input, got 2, but"):
        module(leaf(1.0)).sum().backward()
    with pytest.raises(RuntimeError, match="both regular backward hooks and full backward hooks"):
        module.register_backward_hook(lambda *a: None)

    class ToDict(nn.Module):
        def forward(self, x):
            return {"out": x * 2}

    holder = ToDict()
    holder.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        holder(leaf(1.0))["out"].sum().backward()


def test_several_full_backward_hooks_chain():
    module, seen = Double(), []
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].item()))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].item()), prepend=True)
    module(leaf(1.0)).sum().backward()
    assert seen == [2.0, 4.0]


def test_no_hooks_in_backward_without_grad_mode():
    module, seen = Double(), []
    module.register_full_backward_hook(lambda *a: seen.append(1))
    with torch.no_grad():
        assert not module(leaf(1.0)).requires_grad
    assert seen == []


def test_global_hooks_come_first():
    module, order = Double(), []
    note = lambda name: lambda *args: order.append(name)  # noqa: E731
    module.register_forward_pre_hook(note("own pre"))
    module.register_forward_hook(note("own forward"))
    module.register_full_backward_hook(note("own backward"))
    handles = [
        module_file.register_module_forward_pre_hook(note("pre")),
        module_file.register_module_forward_hook(note("forward")),
        module_file.register_module_full_backward_pre_hook(note("backward pre")),
        module_file.register_module_full_backward_hook(note("backward")),
    ]
    try:
        assert module_file._has_any_global_hook()
        module(leaf(1.0)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert not module_file._has_any_global_hook()
    assert order == [
        "pre",
        "own pre",
        "forward",
        "own forward",
        "backward pre",
        "backward",
        "own backward",
    ]


def test_registration_hooks_see_and_replace_members():
    seen = []
    note = lambda module, name, value: seen.append((type(module).__name__, name))  # noqa: E731
    handles = [
        module_file.register_module_parameter_registration_hook(note),
        module_file.register_module_buffer_registration_hook(note),
        module_file.register_module_module_registration_hook(note),
    ]
    try:
        net = nn.Sequential(nn.Linear(1, 1))
        net.register_buffer("mean", torch.ones(1))
        net.mean = torch.zeros(1)
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [
        ("Linear", "weight"),
        ("Linear", "bias"),
        ("Sequential", "0"),
        ("Sequential", "mean"),
        ("Sequential", "mean"),
    ]
    five = module_file.register_module_parameter_registration_hook(
        lambda module, name, value: nn.Parameter(torch.full_like(value, 5.0))
    )
    with five:
        module = nn.Module()
        module.w = nn.Parameter(torch.zeros(1))
    assert module.w.item() == 5.0
