"""Reductions, norms, moments, running sums: against NumPy and SciPy; overloads; derivatives."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.core.registry import NAMESPACES

vector_norm = NAMESPACES["linalg"]["vector_norm"]
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "logsumexp": lambda x, axis, keepdims: scipy.special.logsumexp(x, axis=axis, keepdims=keepdims),
    "var": lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims, ddof=1),
    "std": lambda x, axis, keepdims: np.std(x, axis=axis, keepdims=keepdims, ddof=1),
    "all": np.all,
    "any": np.any,
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "strided": lambda x: torch.stack([x, x], -1)[..., 1],
}
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def drawn(*shape, seed=0, dtype=torch.float64):
    """Normal numbers of a shape."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, -1, (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_dims(name, dim, dtype, layout):
    x = LAYOUTS[layout](drawn(2, 3, 4, dtype=dtype))
    for keepdim in (False, True):
        result = getattr(torch, name)(x, dim, keepdim=keepdim)
        expected = REDUCTIONS[name](x.double().numpy(), axis=dim, keepdims=keepdim)
        assert result.shape == expected.shape
        assert result.dtype is (torch.bool if name in ("all", "any") else dtype)
        tolerance = DTYPES[dtype]
        np.testing.assert_allclose(
            result.double().numpy(), expected, rtol=tolerance, atol=tolerance
        )


def test_integers_add_up_in_int64():
    x = torch.tensor([[True, False], [True, True]])
    assert (x.sum().item(), x.sum().dtype) == (3, torch.int64)
    assert torch.tensor([100, 100, 100], dtype=torch.uint8).sum().item() == 300
    assert x.cumsum(0).tolist() == [[1, 0], [2, 1]]
    assert x.count_nonzero(dim=1).tolist() == [1, 2]
    assert torch.tensor([2, 3], dtype=torch.int8).prod().dtype is torch.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        torch.tensor([1, 2]).mean()
    assert torch.tensor([1, 2]).mean(dtype=torch.float64).item() == 1.5


# extremes


def test_max_in_its_three_forms():
    x = torch.tensor([[1.0, 7.0, 3.0], [9.0, 2.0, 9.0]])
    assert torch.max(x).item() == 9.0
    values, indices = x.max(dim=1)
    assert (values.tolist(), indices.tolist()) == ([7.0, 9.0], [1, 0])
    assert x.max(1, keepdim=True).values.shape == (2, 1)
    assert torch.max(x, torch.full_like(x, 4)).tolist() == [[4, 7, 4], [9, 4, 9]]
    assert torch.min(x, 0).indices.tolist() == [0, 1, 0]
    found = torch.max(torch.eye(2), 0)
    assert type(found) is torch.return_types.max
    assert repr(found) == (
        "torch.return_types.max(\nvalues=tensor([1., 1.]),\nindices=tensor([0, 1]))"
    )
    out = (torch.empty(0), torch.empty(0, dtype=torch.int64))
    torch.max(x, 1, out=out)
    assert out[1].tolist() == [1, 0]
    low, high = torch.aminmax(x)
    assert (low.item(), high.item()) == (1.0, 9.0)


def test_extremes_of_nothing():
    with pytest.raises(RuntimeError, match="Specify the reduction dim"):
        torch.zeros(0).max()
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        torch.zeros(0, 2).max(0)
    with pytest.raises(IndexError, match="argmax"):
        torch.zeros(0).argmax()
    assert torch.zeros(0).sum().item() == 0
    assert torch.zeros(0).prod().item() == 1


def test_nan_is_the_extreme():
    x = torch.tensor([1.0, math.nan, 5.0])
    assert math.isnan(x.max().item())
    assert math.isnan(x.amin().item())
    assert x.argmax().item() == 1
    assert x.cummax(0).indices.tolist() == [0, 1, 1]


def test_the_gradient_of_an_extreme():
    x = torch.tensor([[2.0, 5.0, 5.0]], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [[0.0, 0.5, 0.5]]
    x.grad = None
    x.max(1).values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 0.0]]


# derivatives

CHECKED = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((0, 2)),
    "prod": lambda x: x.prod(1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std((0, 1), correction=0),
    "logsumexp": lambda x: x.logsumexp((0, 2)),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "norm": lambda x: x.norm(),
    "norm_3": lambda x: x.norm(3, dim=1),
    "norm_inf": lambda x: x.norm(math.inf, dim=1),
    "norm_half": lambda x: x.norm(0.5, dim=0),
    "renorm": lambda x: x.renorm(2, 0, 0.5),
    "dist": lambda x: torch.dist(x, x.flip(0), 3),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cummax": lambda x: x.cummax(1).values,
    "diff": lambda x: x.diff(n=2, dim=1),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5, dim=1),
    "cov": lambda x: torch.cov(x[0]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_derivatives(name):
    x = drawn(2, 3, 4, seed=1).requires_grad_()
    assert gradcheck(CHECKED[name], (x,))
    if name != "norm_half":
        assert gradgradcheck(CHECKED[name], (x,))


@pytest.mark.parametrize("zeros", [[0], [2], [0, 2], [1, 2]], ids=str)
def test_products_with_zeros_have_derivatives(zeros):
    x = drawn(4, seed=2)
    x[zeros] = 0.0
    x.requires_grad_()
    for function in (lambda t: t.prod(), lambda t: t.prod(0), lambda t: t.cumprod(0)):
        assert gradcheck(function, (x,))
        assert gradgradcheck(function, (x,))


def test_slopes_at_zero_are_zero():
    for function in (torch.norm, torch.std, lambda t: t.norm(3), lambda t: t.norm(1)):
        x = torch.zeros(3, requires_grad=True)
        function(x).backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


# norms


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, math.inf, -math.inf, -1])
def test_vector_norms(order):
    x = drawn(3, 4, seed=3)
    expected = np.linalg.norm(x.numpy(), order, axis=1)
    np.testing.assert_allclose(torch.norm(x, order, dim=1).numpy(), expected)
    np.testing.assert_allclose(vector_norm(x, order, dim=1).numpy(), expected)
    assert vector_norm(x, order, dim=(0, 1), keepdim=True).shape == (1, 1)


def test_norms_refuse_integers():
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor"):
        torch.norm(torch.tensor([1, 2]))


# running

RUNNING = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "logcumsumexp": lambda x, axis: np.logaddexp.accumulate(x, axis=axis),
    "cummax": lambda x, axis: np.maximum.accumulate(x, axis=axis),
    "cummin": lambda x, axis: np.minimum.accumulate(x, axis=axis),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", RUNNING)
def test_running_reductions(name, dim, layout):
    x = LAYOUTS[layout](drawn(2, 3, 4, seed=5))
    result = getattr(torch, name)(x, dim)
    values = result if isinstance(result, torch.Tensor) else result.values
    np.testing.assert_allclose(values.numpy(), RUNNING[name](x.numpy(), axis=dim))
    if isinstance(result, tuple):
        assert torch.equal(x.gather(dim, result.indices), values)


def test_the_last_place_of_a_running_extreme():
    found = torch.tensor([3, 1, 3, 2]).cummax(0)
    assert (found.values.tolist(), found.indices.tolist()) == ([3, 3, 3, 3], [0, 0, 2, 2])


def test_running_sums_written_in_place():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert x.cumsum_(0) is x
    assert x.tolist() == [1.0, 3.0, 6.0]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.data())
def test_any_dims_of_any_shape(shape, data):
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    x = drawn(*shape, seed=7)
    np.testing.assert_allclose(x.sum(dims).numpy(), x.numpy().sum(tuple(dims)), atol=1e-12)
    np.testing.assert_array_equal(
        (x > 0).all(tuple(dims)).numpy(), (x.numpy() > 0).all(tuple(dims))
    )


def test_dims_named_twice_or_missing():
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        x.sum((0, 0))
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(2)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.cumsum(2)
