"""Hooks on tensors, on nodes, after accumulation, on several gradients, and on what is saved."""

import gc
import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_a_hook_sees_the_gradient(torch):
    x, seen = leaf(torch, 1.0, 2.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * y).sum().backward()
    assert seen == [[4, 8]] and x.grad.tolist() == [8, 16]


def test_a_hook_replaces_the_gradient(torch):
    x = leaf(torch, 1.0, 2.0)
    x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [31, 31]


def test_hooks_run_for_autograd_grad_too(torch):
    x = leaf(torch, 1.0)
    x.register_hook(lambda g: g * 10)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    assert torch.autograd.grad(y, x)[0].tolist() == [60]
    assert torch.autograd.grad(x * 1, x)[0].tolist() == [10]


def test_hooks_are_removed(torch):
    x = leaf(torch, 1.0)
    handle = x.register_hook(lambda g: g * 10)
    with x.register_hook(lambda g: g * 100):
        (x * 1).backward()
    handle.remove()
    handle.remove()
    (x * 1).backward()
    assert x.grad.tolist() == [1001]
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    handle.remove()
    x.grad = None
    y.backward()
    assert x.grad.tolist() == [2]


def test_hooks_that_return_what_is_no_gradient(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: "no")
    with pytest.raises((TypeError, RuntimeError), match="hook returned 'str'"):
        y.sum().backward()


def test_a_hook_on_what_needs_no_gradient(torch):
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't "):
        torch.ones(1).register_hook(print)


def test_hooks_keep_no_graph_alive(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    gone = weakref.ref(y)
    y.register_hook(lambda g: None)
    del y
    gc.collect()
    assert gone() is None


def test_hooks_after_a_node(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2

    def hook(inputs, outputs):
        seen.append(([g.tolist() for g in inputs if g is not None], outputs[0].tolist()))
        return tuple(None if g is None else g * 5 for g in inputs)

    handle = y.grad_fn.register_hook(hook)
    y.backward(retain_graph=True)
    assert seen[0][0][0] == [2] and seen[0][1] == [1] and x.grad.tolist() == [10]
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [12] and len(seen) == 1


def test_hooks_before_a_node(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 7,))
    y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [16]


def test_hooks_on_the_accumulator(torch):
    x, seen = leaf(torch, 1.0), []
    last = (x * 1).grad_fn.next_functions[0][0]
    last.register_hook(lambda inputs, outputs: seen.append(("after", x.grad.tolist())))
    last.register_prehook(lambda outputs: seen.append(("before", outputs[0].tolist())))
    (x * 3).backward()
    assert seen == [("before", [3]), ("after", [3])]


def test_hooks_after_accumulation(torch):
    x, seen = leaf(torch, 1.0), []

    def hook(param):
        seen.append(param.grad.tolist())
        param.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    (x * 3 + x * 4).backward()
    (x * 2).backward()
    assert seen == [[7], [2]] and x.grad is None
    handle.remove()
    (x * 2).backward()
    assert x.grad.tolist() == [2]
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot"):
        (x * 2).register_post_accumulate_grad_hook(hook)


def test_hooks_after_accumulation_do_not_run_for_grad(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(seen.append)
    torch.autograd.grad(x * 2, x)
    assert seen == []


def test_hooks_on_several_gradients(torch):
    a, b, c, seen = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0), []

    def hook(grads):
        seen.append([None if g is None else g.tolist() for g in grads])

    handle = torch.autograd.graph.register_multi_grad_hook([a, b], hook)
    (a * b * c).backward()
    assert seen == [[[6], [3]]]
    (a * c).backward()  # b takes no part
    assert seen[1:] == [[[3], None]]
    handle.remove()
    (a * b).backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        torch.autograd.graph.register_multi_grad_hook([a], hook, mode="some")


def test_a_hook_on_the_first_of_several_gradients(torch):
    a, b, seen = leaf(torch, 1.0), leaf(torch, 2.0), []
    torch.autograd.graph.register_multi_grad_hook([a, b], lambda g: seen.append(1), mode="any")
    (a * b).backward()
    (a * b).backward()
    assert seen == [1, 1]


def test_hooks_on_what_is_saved(torch):
    x, packed = leaf(torch, 3.0), []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor.detach().numpy().copy()

    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        y = x * x
        z = y.exp()
    w = (z * z).sum()  # outside: kept as it is
    w.backward()
    assert len(packed) == 3
    assert x.grad.item() == pytest.approx(4 * 3 * 2.718281828459045**18)


def test_hooks_on_what_is_saved_nest(torch):
    x, seen = leaf(torch, 3.0), []
    graph = torch.autograd.graph

    def hooks(name):
        return graph.saved_tensors_hooks(lambda t: (seen.append(name), t)[1], lambda t: t)

    with hooks("outer"):
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_saved_values_may_be_unpacked_only_once_the_graph_is_kept(torch):
    x, unpacked = leaf(torch, 3.0), []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(), lambda t: (unpacked.append(1), t)[1]
    )
    with hooks:
        y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert len(unpacked) == 2


def test_second_derivatives_with_hooks_on_what_is_saved(torch):
    x = leaf(torch, 3.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        y = x * x
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.tolist() == [6] and second.tolist() == [2]


def test_what_is_saved_waits_on_the_cpu(torch):
    x = leaf(torch, 3.0)
    with torch.autograd.graph.save_on_cpu():
        y = x.exp() * x
    y.backward()
    assert x.grad.item() == pytest.approx(4 * 2.718281828459045**3)


def test_gradient_edges(torch):
    x = leaf(torch, 3.0)
    y = x * x
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    (found,) = torch.autograd.grad(y * 5, edge)
    assert found.tolist() == [5]
    y = x * x
    edge = torch.autograd.graph.get_gradient_edge(y)
    one = torch.ones(1, dtype=torch.float64)
    torch.autograd.backward(edge, one)
    assert x.grad.tolist() == [6]
