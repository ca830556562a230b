"""Views: the memory and the history that they share with their base."""

import pytest


def grown(torch, *shape):
    """(leaf, a value made of it): ones times 0, 1, 2 ... so that gradients tell places apart."""
    count = 1
    for size in shape:
        count *= size
    source = torch.arange(float(count), dtype=torch.float64).reshape(shape).requires_grad_()
    return source, source * 1


def weights(torch, like):
    """10, 11, 12, ... in the shape of a tensor: a gradient that names each place."""
    return torch.arange(10.0, 10 + like.numel(), dtype=torch.float64).reshape(like.shape)


def pull(torch, value, source):
    """The gradient by the source of the value, weighted by place."""
    return torch.autograd.grad(value, source, weights(torch, value), retain_graph=True)[0].tolist()


VIEWS = {
    "slice": lambda t: t[1:],
    "steps": lambda t: t[::2, 1::2],
    "select": lambda t: t[1],
    "newaxis": lambda t: t[None, :, None],
    "ellipsis": lambda t: t[..., 0],
    "t": lambda t: t.t(),
    "transpose": lambda t: t.transpose(0, 1),
    "permute": lambda t: t.permute(1, 0),
    "view": lambda t: t.view(4, 3),
    "view_as": lambda t: t.view_as(t),
    "reshape": lambda t: t.reshape(2, 6),
    "flatten": lambda t: t.flatten(),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "squeeze": lambda t: t[:1].squeeze(0),
    "narrow": lambda t: t.narrow(1, 1, 2),
    "diagonal": lambda t: t.diagonal(),
    "diagonal_offset": lambda t: t.diagonal(1),
    "expand": lambda t: t[:1].expand(3, 4),
    "expand_new": lambda t: t.expand(2, 3, 4),
    "unfold": lambda t: t.unfold(1, 2, 1),
    "unfold_steps": lambda t: t.unfold(1, 2, 2),
    "as_strided": lambda t: t.as_strided((2, 2), (4, 1), 1),
    "as_strided_overlap": lambda t: t.as_strided((3, 3), (1, 1), 2),
    "movedim": lambda t: t.movedim(0, 1),
    "split": lambda t: t.split(2, 1)[1],
    "chunk": lambda t: t.chunk(2, 1)[0],
    "unbind": lambda t: t.unbind(1)[2],
    "detach_chain": lambda t: t.t()[1:].t(),
    "unflatten": lambda t: t.unflatten(1, (2, 2)),
    "swapaxes": lambda t: t.swapaxes(0, 1),
    "mT": lambda t: t.mT,
    "deep": lambda t: t.view(2, 6)[1].view(3, 2).t()[0][1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_version_and_history(torch, name):
    _source, base = grown(torch, 3, 4)
    view = VIEWS[name](base)
    assert view._is_view() and view._base is base
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    with torch.no_grad():
        base.add_(1)
    assert view._version == base._version == 1


@pytest.mark.parametrize("name", VIEWS)
def test_the_gradient_of_a_view(torch, name):
    source, base = grown(torch, 3, 4)
    view = VIEWS[name](base)
    given = weights(torch, view)
    (found,) = torch.autograd.grad(view, source, given)
    places = VIEWS[name](torch.arange(12).reshape(3, 4)).flatten().tolist()
    expected = [0.0] * 12
    for place, value in zip(places, given.flatten().tolist()):
        expected[place] += value
    assert found.flatten().tolist() == expected


@pytest.mark.parametrize("name", VIEWS)
def test_second_derivatives_of_a_view(torch, name):
    source, base = grown(torch, 3, 4)
    view = VIEWS[name](base)
    (first,) = torch.autograd.grad((view**3).sum(), source, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), source)
    counts = [0.0] * 12
    for place in VIEWS[name](torch.arange(12).reshape(3, 4)).flatten().tolist():
        counts[place] += 6 * place
    assert second.flatten().tolist() == counts


WRITABLE = [n for n in VIEWS if n not in ("split", "chunk", "unbind") and "expand" not in n]
WRITABLE = [n for n in WRITABLE if n not in ("unfold", "as_strided_overlap")]


@pytest.mark.parametrize("name", WRITABLE)
def test_a_write_through_a_view_is_part_of_the_base_s_history(torch, name):
    source, base = grown(torch, 3, 4)
    view = VIEWS[name](base)
    view.mul_(5)
    places = set(VIEWS[name](torch.arange(12).reshape(3, 4)).flatten().tolist())
    assert base.flatten().tolist() == [p * 5 if p in places else p for p in range(12)]
    assert "CopySlices" in base.grad_fn.name()
    assert pull(torch, base, source) == [
        [(10 + p) * (5 if p in places else 1) for p in range(r * 4, r * 4 + 4)] for r in range(3)
    ]


@pytest.mark.parametrize("name", WRITABLE)
def test_a_write_of_the_base_is_part_of_the_view_s_history(torch, name):
    source, base = grown(torch, 3, 4)
    view = VIEWS[name](base)
    base.mul_(source.detach() + 1)
    places = VIEWS[name](torch.arange(12).reshape(3, 4)).flatten().tolist()
    (found,) = torch.autograd.grad(view.sum(), source)
    assert found.flatten().tolist() == [p + 1 if p in places else 0 for p in range(12)]


def test_a_view_of_a_view_has_the_first_base(torch):
    _, base = grown(torch, 3, 4)
    inner = base[1:].t()[2]
    assert inner._base is base


def test_two_overlapping_views_written_in_turn(torch):
    source, base = grown(torch, 4)
    left, right = base[:3], base[1:]
    left.mul_(2)
    right.mul_(3)
    left.add_(1)
    assert base.tolist() == [1, 7, 13, 9] and right.tolist() == [7, 13, 9]
    assert pull(torch, base, source) == [20, 66, 72, 39]
    source, base = grown(torch, 4)
    left, right = base[:3], base[1:]
    left.mul_(2)
    right.mul_(3)
    assert pull(torch, left, source) == [20, 66, 72, 0]


def test_a_view_taken_before_and_one_after_a_write(torch):
    source, base = grown(torch, 4)
    before = base[:2]
    base.mul_(2)
    after = base[:2]
    before.mul_(5)
    assert after.tolist() == [0, 10]
    assert pull(torch, after, source) == [100, 110, 0, 0]
    assert pull(torch, before, source) == [100, 110, 0, 0]


def test_a_view_of_a_view_written(torch):
    source, base = grown(torch, 2, 3)
    row = base[1]
    row[1:].mul_(7)
    assert pull(torch, row, source) == [[0, 0, 0], [10, 77, 84]]
    assert pull(torch, base, source) == [[10, 11, 12], [13, 98, 105]]


def test_a_write_through_a_view_of_a_tensor_that_needs_gradients(torch):
    w = torch.tensor([5.0, 6.0], dtype=torch.float64, requires_grad=True)
    base = torch.zeros(2, 2, dtype=torch.float64)
    rows = [base[0], base[1]]
    rows[0].copy_(w)
    base[:, 1] = w * 2
    assert base.requires_grad and rows[1].requires_grad and rows[1].grad_fn is not None
    assert base.tolist() == [[5, 10], [0, 12]]
    assert pull(torch, base, w) == [10 + 22, 26]
    rows[1].add_(w)
    assert pull(torch, rows[1], w) == [10, 11 + 22]


def test_a_view_made_before_its_base_needed_gradients(torch):
    base = torch.zeros(2, dtype=torch.float64)
    view = base[:1]
    w = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    base.add_(w)
    assert view.requires_grad and pull(torch, view, w) == [10, 0]


def test_second_derivatives_through_a_write_of_a_view(torch):
    source, base = grown(torch, 3)
    base[1:].pow_(3)
    (first,) = torch.autograd.grad((base * base).sum(), source, create_graph=True)
    assert first.tolist() == [0, 6, 6 * 32]
    (second,) = torch.autograd.grad(first.sum(), source)
    assert second.tolist() == [2, 30, 30 * 16]


def test_second_derivatives_by_what_was_written(torch):
    _source, base = grown(torch, 3)
    w = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    base[1:] = w * w
    (first,) = torch.autograd.grad((base * base).sum(), w, create_graph=True)
    assert first.tolist() == [2 * 4 * 8]
    (second,) = torch.autograd.grad(first.sum(), w)
    assert second.tolist() == [2 * 12 * 4]


def test_a_saved_view_whose_base_was_written(torch):
    _source, base = grown(torch, 4)
    product = base[:2] * base[2:]
    base[3] = 7
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_detached_views_have_no_base(torch):
    _source, base = grown(torch, 4)
    view = base[1:].detach()
    assert not view.requires_grad
    view.zero_()
    assert base.tolist() == [0, 0, 0, 0] and base._version == 1


def test_a_view_outlives_the_name_of_its_base(torch):
    source, base = grown(torch, 4)
    view = base[1:]
    del base
    view.mul_(3)
    assert pull(torch, view, source) == [0, 30, 33, 36]


def test_slices_assigned_to_themselves(torch):
    source, base = grown(torch, 4)
    base[:2] += 10
    base[1:3] *= 2
    assert base.tolist() == [10, 22, 4, 3]
    assert pull(torch, base, source) == [10, 22, 24, 13]


def test_a_transposed_slice_assigned(torch):
    source, base = grown(torch, 2, 2)
    base.t()[0] = base.t()[1].clone()
    assert base.tolist() == [[1, 1], [3, 3]]
    assert pull(torch, base, source) == [[0, 21], [0, 25]]


def test_views_of_what_needs_no_gradient(torch):
    base = torch.arange(6)
    view = base.view(2, 3)[:, 1]
    view += 10
    assert base.tolist() == [0, 11, 2, 3, 14, 5] and not view.requires_grad
    assert view._base is base


def test_view_dtype_of_the_same_size(torch):
    x = torch.tensor([1.0, -0.0])
    y = x.view(torch.int32)
    assert y.tolist() == [0x3F800000, -(2**31)]
    y[1] = 0x40000000
    assert x.tolist() == [1, 2]


def test_real_and_imaginary_parts_are_views(torch):
    z = torch.tensor([1 + 2j, 3 + 4j], dtype=torch.complex128)
    z.real[0] = 7
    z.imag.mul_(10)
    assert z.tolist() == [7 + 20j, 3 + 40j]
    assert torch.view_as_real(z)[1].tolist() == [3, 40]


def test_views_that_do_not_fit(torch):
    x = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        x.t().view(6)
    with pytest.raises(RuntimeError, match=r"shape '\[4\]' is invalid for input of size 6"):
        x.view(4)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        x.view(-1, -1)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        x.expand(3, 3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.transpose(0, 2)
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]
    with pytest.raises(RuntimeError, match="start .* exceeds dimension size"):
        x.narrow(0, 1, 5)
    with pytest.raises(RuntimeError, match="setStorage|out of bounds"):
        x.as_strided((4, 4), (4, 1))
