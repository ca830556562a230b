"""Quantiles, histograms and coordinates against NumPy."""

import numpy as np
import pytest

import ember as torch
from ember.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(0).standard_normal((4, 7))
METHODS = {"linear": "linear", "lower": "lower", "higher": "higher", "midpoint": "midpoint",
           "nearest": "nearest"}  # fmt: skip


@pytest.mark.parametrize("interpolation", METHODS)
@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_quantile(interpolation, dim, keepdim):
    q = np.array([0.0, 0.23, 0.5, 1.0])
    options = {"axis": dim, "keepdims": keepdim, "method": interpolation}
    found = torch.quantile(
        torch.tensor(X), torch.tensor(q), dim, keepdim, interpolation=interpolation
    )
    np.testing.assert_allclose(found.numpy(), np.quantile(X, q, **options))
    single = torch.quantile(torch.tensor(X), 0.23, dim, keepdim, interpolation=interpolation)
    assert torch.equal(single, found[1])
    holes = np.where(X > 1, np.nan, X)
    found = torch.nanquantile(
        torch.tensor(holes), torch.tensor(q), dim, keepdim, interpolation=interpolation
    )
    np.testing.assert_allclose(found.numpy(), np.nanquantile(holes, q, **options))


def test_quantile_of_nan_and_errors():
    assert torch.quantile(torch.tensor([1.0, float("nan")]), 0.5).isnan()
    assert torch.nanquantile(torch.tensor([float("nan")]), 0.5).isnan()
    for arguments, message in (
        ((torch.ones(3), 1.5), "in the range"),
        ((torch.ones(3).long(), 0.5), "float or double"),
        ((torch.ones(3), torch.ones(2, 2)), "scalar or 1D"),
        ((torch.ones(3), torch.ones(1).double()), "same dtype"),
        ((torch.ones(0), 0.5), "non-empty"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.quantile(*arguments)


def test_quantile_derivatives():
    x = torch.tensor(X).requires_grad_()
    q = torch.tensor([0.21, 0.7], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, q: torch.quantile(x, q, 1), (x, q))
    assert gradgradcheck(lambda x, q: torch.quantile(x, q, 1), (x, q))


def test_histograms():
    counts, edges = torch.histogram(torch.tensor(X), 5, range=(-1.0, 1.0))
    expected = np.histogram(X, 5, (-1, 1))
    np.testing.assert_allclose(counts.numpy(), expected[0])
    np.testing.assert_allclose(edges.numpy(), expected[1])
    weight = np.abs(X)
    given = np.array([-1.0, 0.0, 2.0])
    made = torch.histogram(
        torch.tensor(X), torch.tensor(given), weight=torch.tensor(weight), density=True
    )
    expected = np.histogram(X, given, weights=weight, density=True)
    np.testing.assert_allclose(made.hist.numpy(), expected[0])
    points = X.reshape(-1, 2)
    made = torch.histogramdd(torch.tensor(points), [2, 3])
    expected = np.histogramdd(points, [2, 3])
    np.testing.assert_allclose(made.hist.numpy(), expected[0])
    assert len(made.bin_edges) == 2
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histogram(torch.ones(3), 0)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        torch.histogramdd(torch.ones(3), 2)


def test_coordinates():
    places = torch.tensor([[0, 5], [11, 3]])
    found = torch.unravel_index(places, (2, 3, 2))
    expected = np.unravel_index(places.numpy(), (2, 3, 2))
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), right)
    with pytest.raises(TypeError, match="integer dtype"):
        torch.unravel_index(torch.tensor(1.0), (2,))
    x = torch.tensor([[1, 0], [0, 2]])
    assert torch.nonzero_static(x, size=1).tolist() == [[0, 0]]
    assert x.nonzero_static(size=3, fill_value=-7).tolist() == [[0, 0], [1, 1], [-7, -7]]


def test_sums_of_products_round_once():
    torch.manual_seed(0)
    c, a, b = (torch.randn(4, 4, dtype=torch.float16) for _ in range(3))
    exact = 0.3 * c.double() + 0.7 * (a.double() @ b.double())
    assert torch.equal(torch.addmm(c, a, b, beta=0.3, alpha=0.7), exact.float().half())
