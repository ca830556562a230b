"""Products of matrices and vectors, tensordot and einsum: against NumPy; derivatives; errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember.autograd import gradcheck, gradgradcheck


def drawn(*shape, seed=0):
    """Normal numbers of a shape."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)],
    "i,j->ij": [(3,), (4,)],
    "i,i->": [(3,), (3,)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "ij->ji": [(2, 3)],
    "ij->": [(2, 3)],
    "...ij,...jk->...ik": [(5, 2, 3), (3, 4)],
    "i...,i...->...": [(3, 2, 4), (3, 4)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 2)],
    "abc,c,b->a": [(2, 3, 4), (4,), (3,)],
    "ij,ik->jk": [(4, 2), (4, 3)],
    "iij,jk->ik": [(2, 2, 3), (3, 4)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    operands = [drawn(*shape, seed=i) for i, shape in enumerate(EQUATIONS[equation])]
    expected = np.einsum(equation, *(x.numpy() for x in operands))
    result = torch.einsum(equation, *operands)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(torch.einsum(equation, operands).numpy(), expected, atol=1e-12)
    inputs = [x.requires_grad_() for x in operands]
    assert gradcheck(lambda *xs: torch.einsum(equation, *xs), inputs)


def test_einsum_with_numbers_for_letters():
    x, y = drawn(2, 3), drawn(3, 4)
    expected = (x @ y).numpy()
    np.testing.assert_allclose(torch.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), expected)
    np.testing.assert_allclose(torch.einsum(x, [..., 1], y, [1, 2]).numpy(), expected)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ij,jk->ik", [(2, 3), (2, 3)], "subscript j has size 2 for operand 1"),
        ("ij,jk->il", [(2, 3), (3, 3)], "output subscript l does not appear"),
        ("ij", [(2, 3), (3, 3)], "more operands were provided"),
        ("ij,jk", [(2, 3)], "fewer operands were provided"),
        ("i1", [(2, 3)], "invalid subscript given at index 1"),
        ("ij->ii", [(2, 3)], "appears more than once in the output"),
        ("i->i", [(2, 3)], "number of subscripts"),
        ("ii->i", [(2, 3)], "sizes don't match"),
    ],
)
def test_equations_that_do_not_fit(equation, shapes, words):
    with pytest.raises(RuntimeError, match=words):
        torch.einsum(equation, *(torch.ones(shape) for shape in shapes))


LETTERS = "abcd"


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_random_equations(data):
    sizes = dict(zip(LETTERS, data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=4))))
    term = st.lists(st.sampled_from(LETTERS), unique=True, min_size=1, max_size=3)
    terms = data.draw(st.lists(term, min_size=1, max_size=3))
    seen = sorted({c for t in terms for c in t})
    output = data.draw(st.lists(st.sampled_from(seen), unique=True))
    equation = ",".join("".join(t) for t in terms) + "->" + "".join(output)
    operands = [drawn(*(sizes[c] for c in t), seed=i) for i, t in enumerate(terms)]
    expected = np.einsum(equation, *(x.numpy() for x in operands))
    np.testing.assert_allclose(torch.einsum(equation, *operands).numpy(), expected, atol=1e-10)


def test_products_of_vectors():
    x, y = drawn(3), drawn(3, seed=1)
    assert torch.dot(x, y).item() == pytest.approx(float(x.numpy() @ y.numpy()))
    np.testing.assert_allclose(torch.outer(x, y).numpy(), np.outer(x.numpy(), y.numpy()))
    np.testing.assert_allclose(torch.inner(x, y).numpy(), np.inner(x.numpy(), y.numpy()))
    a = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.vdot(a, a).item() == 15 + 0j


@pytest.mark.parametrize("dims", [0, 1, 2, ([0, 2], [1, 2]), ([1], [0])], ids=str)
def test_tensordot(dims):
    shapes = {0: ((2, 3), (4,)), 1: ((2, 3), (3, 4)), 2: ((5, 2, 3), (2, 3, 4))}
    a, b = ((2, 3, 4), (5, 2, 4)) if isinstance(dims, tuple) and len(dims[0]) == 2 else (
        shapes.get(dims, ((2, 3), (3, 4))) if isinstance(dims, int) else ((2, 3), (3, 4))
    )  # fmt: skip
    x, y = drawn(*a), drawn(*b, seed=1)
    expected = np.tensordot(x.numpy(), y.numpy(), dims)
    np.testing.assert_allclose(torch.tensordot(x, y, dims).numpy(), expected, atol=1e-12)
    assert gradgradcheck(
        lambda t, u: torch.tensordot(t, u, dims), (x.requires_grad_(), y.requires_grad_())
    )


ADDED = {
    "addmm": ((2, 4), (2, 3), (3, 4)),
    "addmv": ((2,), (2, 3), (3,)),
    "addr": ((2, 3), (2,), (3,)),
    "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4)),
    "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4)),
}


@pytest.mark.parametrize("name", ADDED)
def test_products_added_to_an_input(name):
    start, a, b = (drawn(*shape, seed=i) for i, shape in enumerate(ADDED[name]))
    product = {
        "addr": lambda: np.outer(a.numpy(), b.numpy()),
        "addbmm": lambda: (a.numpy() @ b.numpy()).sum(0),
    }.get(name, lambda: a.numpy() @ b.numpy())()
    result = getattr(torch, name)(start, a, b, beta=0.5, alpha=2)
    np.testing.assert_allclose(result.numpy(), 0.5 * start.numpy() + 2 * product)
    plain = getattr(torch, name)(torch.full_like(start, float("nan")), a, b, beta=0)
    np.testing.assert_allclose(plain.numpy(), product)
    written = start.clone()
    assert getattr(written, name + "_")(a, b) is written
    np.testing.assert_allclose(written.numpy(), start.numpy() + product)


def test_a_chain_in_the_cheapest_order():
    matrices = [drawn(4, 30), drawn(30, 2, seed=1), drawn(2, 30, seed=2), drawn(30, 3, seed=3)]
    expected = np.linalg.multi_dot([m.numpy() for m in matrices])
    with pytest.warns(match="torch.chain_matmul is deprecated"):
        np.testing.assert_allclose(torch.chain_matmul(*matrices).numpy(), expected, atol=1e-10)


def test_covariance_and_correlation():
    x = drawn(3, 6)
    np.testing.assert_allclose(torch.cov(x).numpy(), np.cov(x.numpy()))
    np.testing.assert_allclose(torch.corrcoef(x).numpy(), np.corrcoef(x.numpy()))
    counts, weights = torch.tensor([1, 2, 0, 1, 3, 1]), drawn(6, seed=2).abs()
    np.testing.assert_allclose(
        torch.cov(x, correction=0, fweights=counts, aweights=weights).numpy(),
        np.cov(x.numpy(), ddof=0, fweights=counts.numpy(), aweights=weights.numpy()),
    )


def test_gradients_of_samples():
    x = drawn(5, 6)
    for edge in (1, 2):
        rows, columns = torch.gradient(x, spacing=(0.5, 2.0), edge_order=edge)
        expected = np.gradient(x.numpy(), 0.5, 2.0, edge_order=edge)
        np.testing.assert_allclose(rows.numpy(), expected[0])
        np.testing.assert_allclose(columns.numpy(), expected[1])
    places = torch.tensor([0.0, 1.0, 3.0, 4.5, 5.0], dtype=torch.float64)
    (slope,) = torch.gradient(x, spacing=(places,), dim=0)
    np.testing.assert_allclose(slope.numpy(), np.gradient(x.numpy(), places.numpy(), axis=0))


def test_dtypes_must_agree():
    with pytest.raises(RuntimeError, match="to have the same dtype"):
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied .2x3 and 2x3."):
        torch.ones(2, 3) @ torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="must not be a floating point number"):
        torch.addmm(torch.ones(1, 1).long(), *[torch.ones(1, 1).long()] * 2, alpha=0.5)
