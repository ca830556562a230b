"""In-place writes: who may be written, what is counted, and how history follows."""

import pytest

import ember

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace"


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def inner(torch, *values):
    """A value that is no leaf: gradients arrive at `source`, one for each element."""
    source = leaf(torch, *values)
    return source, source * 1


WRITES = {
    "add_": lambda t: t.add_(1),
    "iadd": lambda t: t.__iadd__(1),
    "mul_": lambda t: t.mul_(2),
    "copy_": lambda t: t.copy_(t.detach() * 2),
    "fill_": lambda t: t.fill_(3),
    "zero_": lambda t: t.zero_(),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "masked": lambda t: t.__setitem__(t.detach() > 0, 5.0),
    "listed": lambda t: t.__setitem__([0, 1], 5.0),
    "clamp_": lambda t: t.clamp_(0, 1),
    "exp_": lambda t: t.exp_(),
    "uniform_": lambda t: t.uniform_(),
    "normal_": lambda t: t.normal_(),
    "masked_fill_": lambda t: t.masked_fill_(t.detach() > 0, 1.0),
    "relu_": lambda t: t.relu_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_leaves_are_not_written(torch, name):
    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(RuntimeError, match=LEAF):
        WRITES[name](x)
    assert x.tolist() == [1, 2] and x._version == 0 and x.is_leaf and x.grad_fn is None


@pytest.mark.parametrize("name", WRITES)
def test_views_of_leaves_are_not_written(torch, name):
    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        WRITES[name](x[:])
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        WRITES[name](x.view(2))
    assert x.tolist() == [1, 2] and x._version == 0


@pytest.mark.parametrize("name", WRITES)
def test_leaves_are_written_where_nothing_is_recorded(torch, name):
    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        WRITES[name](x)
    assert x._version == 1 and x.is_leaf and x.requires_grad
    x.mul(2).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_counted_once(torch, name):
    x = torch.tensor([1.0, 2.0])
    before = x._version
    WRITES[name](x)
    assert x._version == before + 1


def test_a_write_returns_the_tensor_itself(torch):
    x = torch.zeros(3)
    assert x.add_(1) is x and x.copy_(torch.ones(3)) is x and x.fill_(2) is x and x.zero_() is x
    y = x
    y += 1
    assert y is x and x.tolist() == [1, 1, 1]


def test_gradients_through_writes(torch):
    x, y = inner(torch, 1.0, 2.0)
    y.mul_(3).add_(1)
    y *= y.detach() + 0
    y.sum().backward()
    assert y.tolist() == [16, 49] and x.grad.tolist() == [12, 21]


def test_a_write_that_changes_what_it_saved(torch):
    x, y = inner(torch, 1.0, 2.0)
    y.mul_(y.detach())
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()
    y = x * 1
    y[:1].mul_(y.detach()[:1])
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_the_value_before_a_write_is_kept_where_the_gradient_reads_it():
    x, y = inner(ember, 1.0, 2.0)  # PyTorch keeps it for pow_ only, and refuses the backward here
    y.mul_(y)
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]
    x, y = inner(ember, 1.0, 2.0)
    w = leaf(ember, 5.0, 7.0)
    y.mul_(w)
    y.sum().backward()
    assert x.grad.tolist() == [5, 7] and w.grad.tolist() == [1, 2]


def test_a_write_that_reads_what_it_replaces(torch):
    x, y = inner(torch, 1.0, 2.0)
    y.pow_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_a_write_of_a_tensor_that_needs_gradients(torch):
    w = leaf(torch, 2.0, 3.0)
    x = torch.ones(2, dtype=torch.float64)
    x.mul_(w)
    assert x.requires_grad and not x.is_leaf
    x.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_copy_into_a_tensor_cuts_its_past(torch):
    x, y = inner(torch, 1.0, 2.0)
    w = leaf(torch, 5.0, 6.0)
    y.copy_(w)
    (y * y).sum().backward()
    assert w.grad.tolist() == [10, 12]
    assert x.grad.tolist() == [0, 0]


def test_filling_cuts_the_past(torch):
    for write in (lambda t: t.zero_(), lambda t: t.fill_(3)):
        x, y = inner(torch, 1.0, 2.0)
        write(y)
        (y * 2).sum().backward()
        assert x.grad.tolist() == [0, 0]


def test_a_saved_value_that_was_written(torch):
    x, y = inner(torch, 1.0, 2.0)
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED) as caught:
        z.backward()
    assert "is at version 1; expected version 0 instead" in str(caught.value)
    assert x.grad is None


def test_a_saved_result_that_was_written(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_written_value_that_nothing_needs(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x + 1  # saves nothing
    z = y * 3  # saves no tensor
    y.add_(1)
    (z.sum() + y.sum()).backward()
    assert x.grad.tolist() == [4, 4]


def test_a_view_s_write_is_seen_by_saved_values(torch):
    _x, y = inner(torch, 1.0, 2.0)
    z = (y * y).sum()
    y[0] = 7
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.backward()


def test_a_detached_alias_s_write_is_seen(torch):
    _x, y = inner(torch, 1.0, 2.0)
    z = (y * y).sum()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.backward()


def test_a_saved_leaf_that_was_written(torch):
    w, x = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    y = (w * x).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_versions(torch):
    x = torch.zeros(4)
    assert x._version == 0
    x.add_(1)
    x[0] = 5
    x.view(2, 2).mul_(2)
    x.detach().zero_()
    assert x._version == 4 and x[1:]._version == 4
    assert x.clone()._version == 0
    with torch.no_grad():
        x.add_(1)
    assert x._version == 5
    x.data.add_(1)
    assert x._version == 5


def test_out_counts_and_refuses_gradients(torch):
    x, out = torch.ones(2), torch.zeros(2)
    assert torch.add(x, 1, out=out) is out and out.tolist() == [2, 2] and out._version == 1
    w = torch.ones(2, requires_grad=True)
    message = "functions with out=... arguments don't support automatic differentiation"
    with pytest.raises(RuntimeError, match=message):
        torch.add(w, 1, out=out)
    assert out.tolist() == [2, 2]
    with torch.no_grad():
        torch.add(w, 5, out=out)
    assert out.tolist() == [6, 6] and not out.requires_grad


def test_results_that_the_tensor_cannot_hold(torch):
    x = torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        x.div_(2)
    with pytest.raises(RuntimeError, match="result type ComplexFloat can't be cast"):
        torch.ones(2).mul_(1j)
    assert x.tolist() == [1, 1] and x._version == 0
    y = torch.ones(2, dtype=torch.float16)
    y.add_(torch.ones(2, dtype=torch.float64))
    assert y.dtype is torch.float16 and y.tolist() == [2, 2]


def test_writes_do_not_broadcast_the_target(torch):
    x = torch.ones(1, 3)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast"
    ):
        x.add_(torch.ones(2, 3))
    with pytest.raises(RuntimeError):
        x.copy_(torch.ones(2, 3))
    assert x._version == 0 and x.tolist() == [[1, 1, 1]]


def test_overlapping_memory_is_not_written(torch):
    message = "more than one element of the written-to tensor refers to a single memory location"
    for x in (torch.zeros(1).expand(3), torch.zeros(4).as_strided((2, 2), (0, 1))):
        with pytest.raises(RuntimeError, match=message):
            x.add_(1)
        with pytest.raises(RuntimeError, match=message):
            x.copy_(torch.ones(x.shape))
        assert x._version == 0


def test_writes_from_overlapping_memory(torch):
    x = torch.arange(4.0)
    message = "some elements of the input tensor and the written-to tensor refer to a single memory"
    with pytest.raises(RuntimeError, match=message):
        x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 2, 3]
    x[:2].add_(x[2:])
    assert x.tolist() == [2, 4, 2, 3]
    x.add_(x)
    assert x.tolist() == [4, 8, 4, 6]


def test_views_made_without_recording_are_not_written_with_it(torch):
    _x, y = inner(torch, 1.0, 2.0)
    with torch.no_grad():
        view = y[:1]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.add_(1)
    with torch.no_grad():
        view.add_(1)
    assert y.tolist() == [2, 2]


def test_one_of_many_views_is_not_written(torch):
    _x, y = inner(torch, 1.0, 2.0)
    for parts in (y.unbind(), y.split(1), y.chunk(2)):
        with pytest.raises(
            RuntimeError, match="Output 0 of .* is a view and is being modified inpl"
        ):
            parts[0].add_(1)
    first, _ = torch.zeros(2).unbind()
    first.add_(1)
    assert first.item() == 1


def test_chunks_of_what_needs_no_gradient_become_history(torch):
    x = torch.zeros(4)
    a, b = x.chunk(2)
    a.add_(1)
    b.mul_(0)
    assert x.tolist() == [1, 1, 0, 0]


def test_grad_fn_changes_with_a_write(torch):
    _x, y = inner(torch, 1.0, 2.0)
    before = y.grad_fn
    y.add_(1)
    assert y.grad_fn is not before and y.grad_fn.name() == "AddBackward0"
    assert y.grad_fn.next_functions[0][0] is before


def test_retained_gradients_follow_a_write(torch):
    x, y = inner(torch, 1.0, 2.0)
    y.retain_grad()
    y.mul_(3)
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2, 2] and x.grad.tolist() == [6, 6]


def test_hooks_stay_with_the_value_they_were_given_for(torch):
    _x, y = inner(torch, 1.0, 2.0)
    seen = []
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    (y * 2).sum().backward()
    assert seen == [("after", [2, 2]), ("before", [6, 6])]


def test_second_derivatives_through_writes(torch):
    x, y = inner(torch, 2.0, 3.0)
    y.pow_(3).add_(x * x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [16, 33]
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [14, 20]


def test_writes_of_a_gradient(torch):
    x = leaf(torch, 1.0, 2.0)
    (x * 3).sum().backward()
    x.grad.zero_()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_number_written_under_recording(torch):
    x, y = inner(torch, 1.0, 2.0, 3.0)
    y[1] = 10
    y[torch.tensor([True, False, False])] = 20
    y[[2, 2]] = torch.tensor([5.0, 5.0], dtype=torch.float64)
    (y * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert y.tolist() == [20, 10, 5] and x.grad.tolist() == [0, 0, 0]


def test_a_tensor_written_under_recording(torch):
    x, y = inner(torch, 1.0, 2.0, 3.0)
    w = leaf(torch, 7.0)
    y[1:] = w
    (y * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [1, 0, 0] and w.grad.tolist() == [5]


def test_a_view_that_was_made_a_leaf_is_one(torch):
    base = torch.ones(4)
    leaf = base.view(2, 2).requires_grad_()
    for write in (lambda: leaf.mul_(2), lambda: leaf[0].zero_(), lambda: leaf.__setitem__(0, 3.0)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            write()
    assert base.tolist() == [1.0] * 4
    with torch.no_grad():
        leaf.mul_(2)
    assert base.tolist() == [2.0] * 4
    base[:2].mul_(torch.ones(2, requires_grad=True))  # the base was no leaf that requires gradients
    assert leaf.grad_fn is not None


@pytest.mark.parametrize(
    ("shape", "strides"), [((3, 2), (2, 3)), ((4, 3), (3, 4)), ((2, 2), (1, 1)), ((3, 3), (3, 2))]
)
def test_strides_that_cross_may_be_written(torch, shape, strides):
    x = torch.zeros(20)
    x.as_strided(shape, strides).add_(torch.ones(shape))
    x.as_strided(shape, strides).fill_(2.0)
    assert set(x.tolist()) == {0.0, 2.0}


def test_expanded_memory_takes_one_value_only(torch):
    x = torch.zeros(1)
    x.expand(3).fill_(4.0)
    assert x.item() == 4 and x.expand(3).zero_().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(3).add_(1)
