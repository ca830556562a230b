"""Views, rearrangements, diagonals and stacks: against NumPy, memory shared or not, derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember.autograd import gradcheck, gradgradcheck

SHAPE = (2, 3, 4)
VIEWS = {
    "transpose": (lambda x: x.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "movedim": (lambda x: x.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "expand": (lambda x: x.unsqueeze(0).expand(5, -1, -1, -1), lambda a: np.stack([a] * 5)),
    "select": (lambda x: x.select(1, -1), lambda a: a[:, -1]),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda a: a[..., 1:3]),
    "slice": (lambda x: x[:, ::2], lambda a: a[:, ::2]),
    "diagonal": (lambda x: x.diagonal(1, 1, 2), lambda a: a.diagonal(1, 1, 2)),
    "unfold": (
        lambda x: x.unfold(2, 2, 1),
        lambda a: np.stack([a[..., i : i + 2] for i in range(3)], 2),
    ),
    "reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "flatten": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "unflatten": (lambda x: x.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "split": (lambda x: x.split(2, 1)[1], lambda a: a[:, 2:]),
    "chunk": (lambda x: x.chunk(2, 2)[0], lambda a: a[..., :2]),
    "unbind": (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
    "tensor_split": (lambda x: x.tensor_split(3, 2)[0], lambda a: np.array_split(a, 3, 2)[0]),
    "hsplit": (lambda x: x.hsplit([1])[1], lambda a: np.hsplit(a, [1])[1]),
    "dsplit": (lambda x: x.dsplit(2)[1], lambda a: np.dsplit(a, 2)[1]),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(-1, -2)),
    "as_strided": (
        lambda x: x.as_strided((2, 2), (4, 1), 3),
        lambda a: a.reshape(-1)[[3, 4, 7, 8]].reshape(2, 2),
    ),
}
COPIES = {
    "flip": (lambda x: x.flip(0, 2), lambda a: np.flip(a, (0, 2))),
    "fliplr": (torch.fliplr, np.fliplr),
    "flipud": (torch.flipud, np.flipud),
    "roll": (lambda x: x.roll((1, -2), (0, 2)), lambda a: np.roll(a, (1, -2), (0, 2))),
    "roll_flat": (lambda x: x.roll(5), lambda a: np.roll(a, 5)),
    "rot90": (lambda x: x.rot90(1, (0, 2)), lambda a: np.rot90(a, 1, (0, 2))),
    "rot90_back": (lambda x: x.rot90(-1, (1, 2)), lambda a: np.rot90(a, -1, (1, 2))),
    "repeat": (lambda x: x.repeat(2, 1, 2, 1), lambda a: np.tile(a, (2, 1, 2, 1))),
    "tile": (lambda x: x.tile(2, 1), lambda a: np.tile(a, (2, 1))),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1)),
    "counts": (
        lambda x: x.repeat_interleave(torch.tensor([2, 0, 1]), 1),
        lambda a: np.repeat(a, [2, 0, 1], 1),
    ),
    "tril": (lambda x: x.tril(-1), lambda a: np.tril(a, -1)),
    "triu": (lambda x: x.triu(1), lambda a: np.triu(a, 1)),
    "diagflat": (lambda x: x.diagflat(1), lambda a: np.diagflat(a, 1)),
    "diag": (lambda x: x[0, 0].diag(-1), lambda a: np.diag(a[0, 0], -1)),
    "diag_of_matrix": (lambda x: x[0].diag(1), lambda a: np.diag(a[0], 1)),
    "hstack": (lambda x: torch.hstack([x, x]), lambda a: np.hstack([a, a])),
    "vstack": (lambda x: torch.vstack([x, x]), lambda a: np.vstack([a, a])),
    "dstack": (lambda x: torch.dstack([x, x]), lambda a: np.dstack([a, a])),
    "column_stack": (
        lambda x: torch.column_stack([x[0, 0], x[0, 1]]),
        lambda a: np.column_stack([a[0, 0], a[0, 1]]),
    ),
    "kron": (lambda x: torch.kron(x[0], x[1]), lambda a: np.kron(a[0], a[1])),
    "vander": (lambda x: torch.vander(x[0, 0], 3), lambda a: np.vander(a[0, 0], 3)),
    "permute_copy": (lambda x: torch.permute_copy(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


def numbers(dtype=torch.float64):
    """1 ... 24 in three dims."""
    return torch.arange(1, 25).reshape(SHAPE).to(dtype)


def test_views_share_memory():
    for name, (view, expected) in VIEWS.items():
        x = numbers()
        made = view(x)
        np.testing.assert_array_equal(made.numpy(), expected(x.numpy().copy()), err_msg=name)
        first = made.reshape(-1)[0].item()
        x.fill_(-1)
        assert (made == -1).all(), name
        assert first != -1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("name", COPIES)
def test_copies_have_their_own_memory(name, dtype, layout):
    if dtype is torch.bool and name in ("kron", "vander"):
        return  # truth values have no powers
    make, expected = COPIES[name]
    x = LAYOUTS[layout](numbers(dtype))
    plain = x.float().numpy() if dtype is torch.bfloat16 else x.numpy().copy()
    made = make(x)
    x.zero_()
    result = made.float().numpy() if dtype is torch.bfloat16 else made.numpy()
    wanted = expected(plain)
    if dtype is torch.bfloat16:  # rounded as the results are
        wanted = torch.tensor(np.ascontiguousarray(wanted)).bfloat16().float().numpy()
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", sorted(VIEWS | COPIES))
def test_derivatives(name):
    function = (VIEWS | COPIES)[name][0]
    x = (numbers() / 7).requires_grad_()
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_parts_replaced():
    x, row = (
        torch.zeros(2, 3, requires_grad=True),
        torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    )
    made = torch.select_scatter(x, row, 0, 1)
    assert made.tolist() == [[0, 0, 0], [1, 2, 3]]
    (made * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2, 2], [0, 0, 0]]
    assert row.grad.tolist() == [2, 2, 2]
    assert torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2)).tolist() == [[1, 0], [0, 1]]
    sliced = torch.slice_scatter(torch.zeros(5), torch.ones(2), 0, 1, 5, 2)
    assert sliced.tolist() == [0, 1, 0, 1, 0]
    strided = torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (3,))
    assert strided.tolist() == [1, 0, 0, 1]
    with pytest.raises(
        RuntimeError, match="expected src to have a size equal to the slice of self"
    ):
        torch.select_scatter(x, torch.ones(2), 0, 0)


def test_diag_embed_is_the_opposite_of_diagonal():
    x = numbers()
    for offset in (-1, 0, 2):
        made = torch.diag_embed(x, offset, 0, 2)
        assert torch.equal(made.diagonal(offset, 0, 2), x)
        assert made.sum() == x.sum()


def test_grids_and_choices():
    x, y = torch.tensor([1, 2, 3]), torch.tensor([4, 5])
    for indexing in ("ij", "xy"):
        expected = np.meshgrid(x.numpy(), y.numpy(), indexing=indexing)
        made = torch.meshgrid(x, y, indexing=indexing)
        assert [m.tolist() for m in made] == [e.tolist() for e in expected]
    assert torch.cartesian_prod(y, y).tolist() == [[4, 4], [4, 5], [5, 4], [5, 5]]
    assert torch.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(y, with_replacement=True).tolist() == [[4, 4], [4, 5], [5, 5]]
    made = torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3.0))
    assert made.tolist() == [[1, 2, 0], [0, 0, 3]]
    assert torch.tril_indices(2, 3).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert torch.triu_indices(2, 3, 1).tolist() == [[0, 0, 1], [1, 2, 2]]
    assert [t.shape for t in torch.atleast_2d(torch.tensor(1), x)] == [(1, 1), (1, 3)]
    assert torch.broadcast_shapes((2, 1), (3,), 1) == (2, 3)


def test_changes_of_layout_in_place():
    x = numbers()
    assert x.transpose_(0, 2) is x
    assert x.shape == (4, 3, 2)
    assert x.unsqueeze_(0).squeeze_(0).shape == (4, 3, 2)
    assert x.as_strided_((2,), (1,)).tolist() == [1.0, 2.0]
    y = torch.arange(6.0)
    assert y.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert torch.zeros(3, 3).fill_diagonal_(5).diagonal().tolist() == [5, 5, 5]


def test_complex_numbers_and_their_parts():
    x = torch.tensor([[1.0, 2.0], [3.0, -4.0]], requires_grad=True)
    z = torch.view_as_complex(x)
    assert z.tolist() == [1 + 2j, 3 - 4j]
    assert z.real.tolist() == [1.0, 3.0]
    assert z.abs()[1].item() == 5.0
    (z.abs() ** 2).sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, -8.0]]
    w = z.detach().clone()
    w.real = torch.tensor([7.0, 8.0])
    assert w.tolist() == [7 + 2j, 8 - 4j]
    assert torch.equal(torch.complex(w.real, w.imag), w)
    turned = torch.polar(w.abs(), w.angle())
    np.testing.assert_allclose(turned.numpy(), w.numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="last dimension of size 2"):
        torch.view_as_complex(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="not implemented for tensors with non-complex"):
        torch.ones(2).imag


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: x.view(5), RuntimeError, "invalid for input of size 24"),
        (lambda x: x.permute(0, 0, 1), RuntimeError, "duplicate dims"),
        (lambda x: x.expand(3, 3, 4), RuntimeError, "must match the existing size"),
        (lambda x: x.narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
        (lambda x: x.select(0, 5), IndexError, "out of range"),
        (lambda x: x.repeat(2), RuntimeError, "can not be smaller than number of dimensions"),
        (lambda x: x.hsplit(2), RuntimeError, "not divisible by the split_size 2"),
        (lambda x: x.rot90(1, (0, 0)), RuntimeError, "rotation dims to be different"),
        (lambda x: x.unfold(0, 3, 1), RuntimeError, "maximum size"),
        (lambda x: torch.tril(x[0, 0]), RuntimeError, "at least 2 dimensions"),
        (lambda x: torch.trace(x), RuntimeError, "expected a matrix"),
    ],
)
def test_what_does_not_fit(call, kind, words):
    with pytest.raises(kind, match=words):
        call(numbers())


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_chains_of_views_follow_numpy(shape, data):
    count = int(np.prod(shape))
    x, a = torch.arange(count).reshape(shape), np.arange(count).reshape(shape)
    for _ in range(data.draw(st.integers(1, 4))):
        order = data.draw(st.permutations(range(a.ndim)))
        x, a = x.permute(order), a.transpose(order)
        if a.ndim:
            dim = data.draw(st.integers(0, a.ndim - 1))
            start = data.draw(st.integers(0, a.shape[dim] - 1))
            step = data.draw(st.integers(1, 3))
            key = (slice(None),) * dim + (slice(start, None, step),)
            x, a = x[key], a[key]
        if data.draw(st.booleans()):
            x, a = x.unsqueeze(0), a[None]
    assert x.tolist() == a.tolist()
    assert x.reshape(-1).tolist() == a.reshape(-1).tolist()


def test_the_method_split_names_its_size_otherwise():
    x = torch.arange(4)
    assert [t.tolist() for t in x.split(split_size=3)] == [[0, 1, 2], [3]]
    assert len(torch.split(x, split_size_or_sections=[1, 3])) == 2
    with pytest.raises(TypeError, match="split_size_or_sections"):
        x.split(split_size_or_sections=2)


@pytest.mark.filterwarnings("ignore:Tensor.m?[TH] is deprecated")
def test_a_number_transposed_is_itself_or_its_conjugate():
    x = torch.tensor(3)
    for name in ("T", "mT", "H", "mH"):
        assert getattr(x, name).shape == () and getattr(x, name).data_ptr() == x.data_ptr()
    z = torch.tensor(1 + 2j)
    assert z.mT.item() == 1 + 2j
    assert z.mH.item() == z.H.item() == torch.adjoint(z).item() == 1 - 2j
    for name in ("mT", "mH"):
        with pytest.raises(RuntimeError, match="matrices or batches of matrices. Got 1-D"):
            getattr(torch.ones(2), name)
