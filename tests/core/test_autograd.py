"""backward and grad: every option, what they refuse, and what they leave as it was."""

import gc
import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_backward_of_a_number(torch):
    x = leaf(torch, 1.0, 2.0, 3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    assert x.grad.requires_grad is False and x.grad.grad_fn is None and x.grad.is_leaf


def test_backward_adds_to_what_is_there(torch):
    x = leaf(torch, 1.0, 2.0)
    (x * 3).sum().backward()
    known = x.grad
    (x * 4).sum().backward()
    assert x.grad is known and known.tolist() == [7, 7]


def test_backward_with_a_gradient(torch):
    x = leaf(torch, 1.0, 2.0)
    (x * x).backward(torch.tensor([10.0, 100.0], dtype=torch.float64))
    assert x.grad.tolist() == [20, 400]


def test_backward_takes_a_gradient_by_any_name(torch):
    x = leaf(torch, 1.0, 2.0)
    weights = torch.ones(2, dtype=torch.float64)
    (x * x).backward(gradient=weights)
    torch.autograd.backward(x * x, weights)
    torch.autograd.backward([x * x, x], grad_tensors=[weights, weights])
    assert x.grad.tolist() == [7, 13]


def test_backward_of_a_leaf(torch):
    x = leaf(torch, 2.0)
    x.backward()
    assert x.grad.tolist() == [1]
    x.backward()
    assert x.grad.tolist() == [2]


def test_backward_needs_one_number_or_a_gradient(torch):
    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for scalar outputs"
    ):
        (x * 2).backward()
    assert x.grad is None


def test_backward_without_a_graph(torch):
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        torch.ones(()).backward()


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_backward_wants_the_gradient_in_the_shape_of_the_output(torch, shape):
    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        (x * 2).backward(torch.ones(shape, dtype=torch.float64))
    assert x.grad is None


def test_backward_wants_tensors_and_gradients_in_pairs(torch):
    x = leaf(torch, 1.0)
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.backward([x * 2, x * 3], [torch.ones(1, dtype=torch.float64)])


def test_backward_twice(torch):
    x = leaf(torch, 1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [2]


def test_backward_twice_where_nothing_was_saved(torch):
    x = leaf(torch, 1.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize("make", [lambda x: x * 2, lambda x: 3 * x, lambda x: x / 2])
def test_a_saved_number_is_freed_as_a_tensor_is(torch, make):
    x = leaf(torch, 1.0, 2.0)
    y = make(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    before = x.grad.tolist()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == before


def test_a_mean_and_a_scaled_sum_save_nothing(torch):
    x = leaf(torch, 1.0, 2.0)
    for y in (x.mean(), torch.add(x, x, alpha=2).sum(), torch.trapezoid(x), x.half().mean()):
        y.backward()
        y.backward()
    assert x.grad.tolist() == [9, 9]


def test_retain_graph(torch):
    x = leaf(torch, 3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12]


def test_create_graph(torch):
    x = leaf(torch, 3.0)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert first.tolist() == [27] and first.requires_grad
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    assert second.tolist() == [18]
    (third,) = torch.autograd.grad(second.sum(), x)
    assert third.tolist() == [6] and not third.requires_grad


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_backward_with_create_graph_leaves_a_gradient_with_history(torch):
    x = leaf(torch, 3.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    x.grad.sum().backward()
    assert x.grad.tolist() == [27 + 18]
    x.grad = None


def test_backward_into_inputs_only(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 5.0)
    (a * b).sum().backward(inputs=[a])
    assert a.grad.tolist() == [5] and b.grad is None


def test_backward_into_a_value_between(torch):
    a = leaf(torch, 2.0)
    b = a * 3
    b.retain_grad()
    (b * b).sum().backward(inputs=[b])
    assert a.grad is None and b.grad.tolist() == [12]


def test_backward_into_one_tensor_that_is_no_list(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 5.0)
    (a * b).sum().backward(inputs=b)
    assert a.grad is None and b.grad.tolist() == [2]


def test_backward_into_no_inputs(torch):
    a = leaf(torch, 2.0)
    with pytest.raises(RuntimeError, match=r"inputs. argument to .*backward.* cannot be empty"):
        (a * a).sum().backward(inputs=[])


def test_grad_leaves_grad_alone(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 5.0)
    found = torch.autograd.grad((a * b).sum(), [a, b])
    assert isinstance(found, tuple) and [f.tolist() for f in found] == [[5], [2]]
    assert a.grad is None and b.grad is None


def test_grad_by_values_between(torch):
    a = leaf(torch, 2.0)
    b = a * 3
    c = b * b
    by_b, by_a = torch.autograd.grad(c.sum(), [b, a])
    assert by_b.tolist() == [12] and by_a.tolist() == [36]


def test_grad_by_the_output_itself(torch):
    a = leaf(torch, 2.0)
    b = (a * 3).sum()
    assert torch.autograd.grad(b, b)[0].tolist() == 1


def test_grad_by_the_same_input_twice(torch):
    a = leaf(torch, 2.0)
    first, second = torch.autograd.grad((a * a).sum(), [a, a])
    assert first.tolist() == second.tolist() == [4]


def test_grad_of_several_outputs(torch):
    a = leaf(torch, 2.0)
    one = torch.ones(1, dtype=torch.float64)
    (found,) = torch.autograd.grad([a * a, a * 3], [a], [one, one * 10])
    assert found.tolist() == [34]
    (found,) = torch.autograd.grad([(a * a).sum(), (a * 3).sum()], a)
    assert found.tolist() == [7]


def test_grad_of_one_output_given_twice(torch):
    a = leaf(torch, 2.0)
    y = (a * a).sum()
    assert torch.autograd.grad([y, y], a)[0].tolist() == [8]


def test_grad_of_an_unused_input(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 5.0)
    y = (a * a).sum()
    message = "appears to not have been used in the graph"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(y, [a, b], retain_graph=True)
    by_a, by_b = torch.autograd.grad(y, [a, b], allow_unused=True, retain_graph=True)
    assert by_a.tolist() == [4] and by_b is None
    by_a, by_b = torch.autograd.grad(y, [a, b], materialize_grads=True)
    assert by_a.tolist() == [4] and by_b.tolist() == [0]


def test_grad_options_that_contradict(torch):
    a = leaf(torch, 2.0)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        torch.autograd.grad((a * a).sum(), a, allow_unused=False, materialize_grads=True)


def test_grad_by_what_needs_none(torch):
    a, b = leaf(torch, 2.0), torch.ones(1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad((a * b).sum(), b)


def test_grad_runs_only_what_leads_to_the_inputs(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 5.0)
    seen = []
    left, right = a * 2, b * 3
    left.register_hook(lambda g: seen.append("left"))
    right.register_hook(lambda g: seen.append("right"))
    torch.autograd.grad((left * right).sum(), a)
    assert seen == ["left"]


def test_grad_with_retain_graph_keeps_what_is_saved(torch):
    a = leaf(torch, 2.0)
    y = (a * a).sum()
    torch.autograd.grad(y, a, retain_graph=True)
    torch.autograd.grad(y, a)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, a)


def test_two_leaves_never_share_a_gradient(torch):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    (a + b).sum().backward()
    assert a.grad.data_ptr() != b.grad.data_ptr()
    a.grad.mul_(100)
    assert b.grad.tolist() == [1, 1]


def test_a_gradient_does_not_share_memory_with_the_seed(torch):
    a, seed = leaf(torch, 1.0, 2.0), torch.ones(2, dtype=torch.float64)
    (a + 0).backward(seed)
    a.grad.mul_(5)
    assert seed.tolist() == [1, 1]
    a.grad = None
    a.backward(seed)
    a.grad.mul_(5)
    assert seed.tolist() == [1, 1]


def test_a_gradient_does_not_share_memory_with_what_hooks_saw(torch):
    a, seen = leaf(torch, 1.0, 2.0), []
    b = a * 2
    b.register_hook(seen.append)
    (b + 0).sum().backward()
    assert seen[0].tolist() == [1, 1]
    a.grad.zero_()
    assert seen[0].tolist() == [1, 1]


def test_a_hook_that_keeps_the_gradient_of_a_leaf(torch):
    a, seen = leaf(torch, 1.0, 2.0), []
    a.register_hook(seen.append)
    (a * 3).sum().backward()
    (a * 3).sum().backward()
    assert [s.tolist() for s in seen] == [[3, 3], [3, 3]] and a.grad.tolist() == [6, 6]


def test_retained_gradients_are_not_the_leaf_s(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a + 0
    b.retain_grad()
    (b * 3).sum().backward()
    a.grad.zero_()
    assert b.grad.tolist() == [3, 3]


def test_gradients_of_views_of_one_leaf_add_up(torch):
    a = leaf(torch, 1.0, 2.0, 3.0)
    (a[:2].sum() + a[1:].sum() + a.flip(0)[0]).backward()
    assert a.grad.tolist() == [1, 2, 2]


def test_a_value_used_many_times(torch):
    a = leaf(torch, 2.0)
    b = a * a
    (b * b + b + b * a).sum().backward()
    assert a.grad.tolist() == [4 * 8 + 4 + 12]


def test_a_tensor_with_itself(torch):
    a = leaf(torch, 3.0)
    (a - a + a * a / a).sum().backward()
    assert a.grad.tolist() == [1]


def test_broadcast_gradients_have_the_shape_of_the_input(torch):
    a = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    b = torch.ones(2, 1, 4, dtype=torch.float64, requires_grad=True)
    c = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (a * b * c).sum().backward()
    assert a.grad.tolist() == [[16], [16], [16]]
    assert b.grad.shape == (2, 1, 4) and b.grad.flatten().tolist() == [6] * 8
    assert c.grad.shape == () and c.grad.item() == 24


def test_gradients_have_the_dtype_of_the_leaf(torch):
    a = torch.ones(2, dtype=torch.float32, requires_grad=True)
    b = torch.ones(2, dtype=torch.float64, requires_grad=True)
    c = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    (a * b * c).sum().backward()
    assert (a.grad.dtype, b.grad.dtype, c.grad.dtype) == (
        torch.float32,
        torch.float64,
        torch.bfloat16,
    )


def test_gradients_have_the_strides_of_the_leaf(torch):
    a = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    (a * 2).sum().backward()
    assert a.stride() == (1, 3) and a.grad.stride() == (1, 3)
    b = torch.zeros(2, 3, requires_grad=True)
    (b.t() * torch.ones(3, 2)).sum().backward()
    assert b.grad.stride() == (3, 1)


def test_assigning_grad(torch):
    a = leaf(torch, 1.0, 2.0)
    a.grad = torch.ones(2, dtype=torch.float64)
    (a * 3).sum().backward()
    assert a.grad.tolist() == [4, 4]
    a.grad = None
    assert a.grad is None
    del a.grad
    with pytest.raises(RuntimeError, match="size"):
        a.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="dtype"):
        a.grad = torch.ones(2, dtype=torch.float32)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None"):
        a.grad = 5
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        a.grad = a
    assert a.grad is None


def test_grad_of_an_inner_value_warns(torch):
    a = leaf(torch, 1.0)
    b = a * 2
    with pytest.warns(UserWarning, match=r"The \.grad attribute of a Tensor that is not a leaf"):
        assert b.grad is None
    b.retain_grad()
    b.sum().backward()
    assert b.grad.tolist() == [1]


def test_retain_grad(torch):
    a = leaf(torch, 2.0)
    b = a * 3
    assert b.retains_grad is False
    b.retain_grad()
    b.retain_grad()
    assert b.retains_grad is True
    c = (b * b).sum()
    c.backward(retain_graph=True)
    assert b.grad.tolist() == [12]
    c.backward()
    assert b.grad.tolist() == [24]
    a.retain_grad()  # nothing to do for a leaf
    assert a.retains_grad is False


def test_retain_grad_without_a_graph(torch):
    with pytest.raises(
        RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"
    ):
        torch.ones(1).retain_grad()


def test_retained_gradients_are_those_of_the_hooks(torch):
    a = leaf(torch, 2.0)
    b = a * 3
    b.retain_grad()
    b.register_hook(lambda g: g * 10)
    (b * b).sum().backward()
    assert b.grad.tolist() == [120] and a.grad.tolist() == [360]


def test_retain_grad_keeps_no_tensor_alive(torch):
    a = leaf(torch, 2.0)
    b = a * 3
    b.retain_grad()
    gone = weakref.ref(b)
    c = (b + 1).sum()
    del b
    gc.collect()
    assert gone() is None
    c.backward()
    assert a.grad.tolist() == [3]
