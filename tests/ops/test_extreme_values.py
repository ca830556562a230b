"""Values at infinities, NaN, poles and large degrees, recorded from PyTorch 2.13."""

import math

import pytest

import ember as torch

INF, NAN = math.inf, math.nan


def same(found, wanted):
    assert found.tolist() == pytest.approx(wanted, rel=1e-5, nan_ok=True)


def vector(*values):
    return torch.tensor(values, dtype=torch.float32)


def test_incomplete_gamma_functions():
    s, x = vector(INF, INF, NAN, NAN, NAN, 1, 0, 0), vector(INF, NAN, INF, 0, 1, INF, 0, 2)
    same(torch.special.gammainc(s, x), [NAN, 0, 1, 0, NAN, 1, NAN, 1])
    same(torch.special.gammaincc(s, x), [NAN, 1, 0, 1, NAN, 0, NAN, 0])


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        (2, [NAN, -INF, NAN, -INF, -INF, -2.4041]),
        (3, [NAN, INF, NAN, INF, INF, 6.4939]),
        (4, [NAN, -INF, NAN, -INF, -INF, -24.8863]),
    ],
)
def test_polygamma(n, wanted):
    found = torch.polygamma(n, vector(INF, -INF, NAN, 0, -1, 1))
    assert found.tolist() == pytest.approx(wanted, rel=1e-4, nan_ok=True)


def test_zeta():
    s, q = vector(2, 2, INF, 1, 0.5, 1e20), vector(INF, 1, 1, 2, 2, 1e20)
    same(torch.special.zeta(s, q), [NAN, 1.6449341, 1, INF, NAN, NAN])


def test_angle_of_negative_zero_is_zero():
    same(vector(-0.0, -1, INF, -INF, NAN).angle(), [0, math.pi, 0, math.pi, NAN])


def test_direction_of_infinite_complex_numbers_is_nan():
    found = torch.sgn(torch.tensor([complex(INF, 0), complex(0, NAN), 3 + 4j, 0]))
    assert found.isnan().tolist() == [True, True, False, False]
    assert found[2:].tolist() == pytest.approx([0.6 + 0.8j, 0])


def test_complex_zero_to_the_zero_is_nan():
    zero, one = torch.zeros(1, dtype=torch.complex64), torch.ones(1, dtype=torch.complex64)
    assert torch.pow(zero, zero).isnan().all()
    assert torch.pow(zero, one).tolist() == [0]
    assert torch.pow(zero, 0).tolist() == [1]


def test_complex_numbers_are_true_unless_both_parts_are_zero():
    assert torch.tensor([1j, 0j, 1 + 0j]).bool().tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("name", "x", "n", "wanted"),
    [
        ("chebyshev_polynomial_t", 0.3, 20, 0.9821302),
        ("chebyshev_polynomial_t", -1.0, 7, -1.0),
        ("chebyshev_polynomial_u", 1.0, 7, 8.0),
        ("chebyshev_polynomial_v", -1.0, 4, 9.0),
        ("chebyshev_polynomial_w", 1.5, 3, 29.0),
        ("hermite_polynomial_h", 2.0, 3, 40.0),
        ("hermite_polynomial_h", 2.0, 129, NAN),
        ("hermite_polynomial_he", 2.0, 3, 2.0),
        ("laguerre_polynomial_l", 0.0, 5, 1.0),
        ("laguerre_polynomial_l", 5.0, 20000, -0.37795),
        ("laguerre_polynomial_l", 1e3, 20000, NAN),
        ("legendre_polynomial_p", 0.5, 4, -0.2890625),
        ("legendre_polynomial_p", 0.5, -1, 0.0),
        ("legendre_polynomial_p", 20.0, 1000, NAN),
    ],
)
def test_orthogonal_polynomials(name, x, n, wanted):
    found = float(getattr(torch.special, name)(vector(x), torch.tensor([n]))[0])
    assert found == pytest.approx(wanted, rel=1e-3, nan_ok=True)


def test_ldexp_scales_beyond_the_reach_of_a_power():
    halves = torch.full((2,), 2.0**-14, dtype=torch.float16)
    found = torch.ldexp(halves, torch.tensor([20, 3]))
    assert found.dtype is torch.float16
    same(found, [64.0, 2.0**-11])
    same(torch.ldexp(vector(0.25), torch.tensor([128])), [2.0**126])
    with pytest.raises(NotImplementedError, match="Bool"):
        torch.ldexp(halves, torch.tensor([True, False]))


def test_gradient_of_ldexp():
    x = vector(1.0, 3.0).requires_grad_()
    torch.ldexp(x, torch.tensor([2, -1])).sum().backward()
    same(x.grad, [4.0, 0.5])


def test_reflected_operators_of_numbers():
    x = vector(2.0)
    assert torch.Tensor.__rsub__(5.0, x) is NotImplemented
    same(torch.Tensor.__rmod__(5.0, x), [2.0])
    with pytest.raises(TypeError, match="__radd__"):
        torch.Tensor.__radd__(5.0, x)


def test_casts_keep_strided_tensors_unless_channels_lie_last():
    strided = torch.ones(6, 4)[::2, ::2]
    assert strided.float(memory_format=torch.contiguous_format) is strided
    images = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert images.float(memory_format=torch.contiguous_format).is_contiguous()


def test_airy_function_far_from_zero():
    same(torch.special.airy_ai(torch.tensor([1e20], dtype=torch.float64)), [0.0])
    assert torch.special.airy_ai(vector(-1e8)).isfinite().all()


def test_kaiser_windows_of_large_beta_are_finite():
    found = torch.signal.windows.kaiser(5, beta=100.0)
    assert found.tolist() == pytest.approx([0, 1.63259e-06, 1, 1.63259e-06, 0], rel=1e-4)
    same(torch.kaiser_window(4, periodic=False, beta=2.0), [0.438676, 0.924314, 0.924314, 0.438676])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_empty_vectors_are_left_out_of_cat(dim):
    empty, x = torch.empty(0, requires_grad=True), torch.ones(3, 2, 2)
    assert torch.cat([empty, x, empty], dim).shape == x.shape
