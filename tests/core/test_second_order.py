"""Second derivatives that are zero arrive as zeros, where PyTorch has them so."""

import pytest

import ember as torch
from ember.core.second_order import flat_beyond

F = torch.nn.functional
INDEX = torch.tensor([[0, 2, 0]])


def _second(function, *shapes):
    """The gradients of Σ (first gradients) for `function` of the sum's inputs: None where none."""
    inputs = [(torch.arange(1.0, 1 + _count(s)) / 4).reshape(s).requires_grad_() for s in shapes]
    first = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
    total = sum(g.sum() for g in first if g.requires_grad)
    if not isinstance(total, torch.Tensor):
        return [None] * len(inputs)
    total.backward()
    return [x.grad for x in inputs]


def _count(shape):
    count = 1
    for n in shape:
        count *= n
    return count


LINEAR = {
    "max_pool": (lambda x: F.max_pool1d(x, 2), (1, 2, 4)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), (1, 2, 4, 4)),
    "adaptive_avg_pool": (lambda x: F.adaptive_avg_pool1d(x, 2), (2, 4)),
    "adaptive_max_pool": (lambda x: F.adaptive_max_pool2d(x, 2), (1, 4, 4)),
    "fractional": (lambda x: F.fractional_max_pool2d(x, 2, 2), (1, 1, 5, 5)),
    "reflect": (lambda x: F.pad(x, (1, 2), "reflect"), (1, 3)),
    "replicate": (lambda x: F.pad(x, (1, 2), "replicate"), (1, 3)),
    "area": (lambda x: F.interpolate(x, 2, mode="area"), (1, 1, 4)),
    "nll_loss": (lambda x: F.nll_loss(x, torch.tensor([0, 2])), (2, 3)),
    "empty softmax": (lambda x: x.softmax(-1), (2, 0)),
    "empty log_softmax": (lambda x: x.log_softmax(-1), (2, 0)),
    "product of one": (lambda x: x.prod(), (1,)),
    "masked logsumexp of a number": (lambda x: torch.masked.logsumexp(x), ()),
}


@pytest.mark.parametrize("name", LINEAR)
def test_zeros_where_an_op_is_linear_in_its_input(name):
    function, shape = LINEAR[name]
    (found,) = _second(function, shape)
    assert found is not None
    assert found.shape == shape
    assert torch.equal(found, torch.zeros(shape))


def test_nothing_where_pytorch_has_nothing():
    assert _second(lambda x: F.pad(x, (1, 1), "circular"), (1, 3)) == [None]
    assert _second(lambda x: x.flip(0) * 2, (3,)) == [None]


def test_the_grid_of_nearest_samples_has_zeros():
    x, grid = _second(
        lambda x, grid: F.grid_sample(x, grid - 2, "nearest", align_corners=False),
        (1, 1, 2, 2),
        (1, 1, 2, 2),
    )
    assert x is None
    assert torch.equal(grid, torch.zeros(1, 1, 2, 2))


def test_what_arrives_at_the_gradient_goes_on():
    weights = torch.tensor([1.0, 2.0], requires_grad=True)
    x = torch.tensor([[[1.0, 3.0, 2.0, 0.0]]], requires_grad=True)
    (first,) = torch.autograd.grad((F.max_pool1d(x, 2) * weights).sum(), x, create_graph=True)
    assert first.tolist() == [[[0.0, 1.0, 2.0, 0.0]]]
    (first * torch.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert weights.grad.tolist() == [10.0, 100.0]
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_an_input_without_gradient_is_left_alone():
    x = torch.ones(3)
    assert flat_beyond(x) is x
    with torch.no_grad():
        needed = torch.ones(3, requires_grad=True)
        assert flat_beyond(needed) is needed


def test_a_first_derivative_makes_no_graph():
    x = torch.ones(1, 1, 4, requires_grad=True)
    F.max_pool1d(x, 2).sum().backward()
    assert not x.grad.requires_grad


def test_products_through_scatter_have_second_derivatives():
    # y = (3·2·4, 1, 5): d²y0/dsrc0 dsrc2 = 3, d²y0/dx0 dsrc = (4, 2)
    x = torch.tensor([[3.0, 1.0, 1.0]], requires_grad=True)
    src = torch.tensor([[2.0, 5.0, 4.0]], requires_grad=True)
    first = torch.autograd.grad(
        x.scatter_reduce(1, INDEX, src, "prod").sum(), [x, src], create_graph=True
    )
    assert [g.tolist() for g in first] == [[[8.0, 1.0, 5.0]], [[12.0, 1.0, 6.0]]]
    (first[0].sum() + first[1].sum()).backward()
    assert x.grad.tolist() == [[6.0, 0.0, 1.0]]
    assert src.grad.tolist() == [[7.0, 1.0, 5.0]]


def test_products_through_scatter_with_a_zero_among_them():
    x = torch.tensor([[3.0, 1.0]], requires_grad=True)
    src = torch.tensor([[0.0, 4.0]], requires_grad=True)
    index = torch.tensor([[0, 0]])
    made = x.scatter_reduce(1, index, src, "prod")
    by_x, by_src = torch.autograd.grad(made.sum(), [x, src], create_graph=True)
    assert (by_x.tolist(), by_src.tolist()) == ([[0.0, 1.0]], [[12.0, 0.0]])
    (by_src * torch.tensor([[1.0, 10.0]])).sum().backward()
    assert x.grad.tolist() == [[4.0, 0.0]]
    assert src.grad.tolist() == [[30.0, 3.0]]


def test_products_through_scatter_without_the_input():
    x = torch.tensor([[3.0, 0.0, 7.0]], requires_grad=True)
    src = torch.tensor([[2.0, 5.0, 4.0]], requires_grad=True)
    made = x.scatter_reduce(1, torch.tensor([[0, 0, 0]]), src, "prod", include_self=False)
    assert made.tolist() == [[40.0, 0.0, 7.0]]
    by_x, by_src = torch.autograd.grad(made.sum(), [x, src], create_graph=True)
    assert by_x.tolist() == [[0.0, 1.0, 1.0]]
    assert by_src.tolist() == [[20.0, 8.0, 10.0]]
    assert by_x.requires_grad


def test_empty_parts_of_cat_have_gradients():
    empty, full = torch.empty(0, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    made = torch.cat([empty, full], 1)
    assert made.shape == (2, 3)
    made.sum().backward()
    assert empty.grad.shape == (0,)
    assert full.grad.tolist() == [[1.0] * 3] * 2
    assert torch.cat([torch.empty(0), torch.empty(0)]).shape == (0,)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.cat([torch.empty(0), torch.ones(2)], 1)


def test_the_filler_of_index_fill_has_a_gradient_with_numbers_too():
    x = torch.tensor(1.0, requires_grad=True)
    value = torch.tensor(5.0, requires_grad=True)
    made = x.index_fill(0, torch.tensor([0]), value)
    made.backward()
    assert (made.item(), x.grad.item(), value.grad.item()) == (5.0, 0.0, 1.0)


def test_means_of_slices_have_gradients():
    x = torch.tensor([[3.0, 1.0, 1.0]], requires_grad=True)
    source = torch.tensor([[2.0, 5.0, 4.0]], requires_grad=True)
    made = x.index_reduce(1, torch.tensor([0, 2, 0]), source, "mean")
    assert made.tolist() == [[3.0, 1.0, 3.0]]
    (made * torch.tensor([[3.0, 1.0, 2.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0]]
    assert source.grad.tolist() == [[1.0, 1.0, 1.0]]
