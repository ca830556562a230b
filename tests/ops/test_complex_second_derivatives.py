"""Second derivatives of elementwise functions of complex numbers."""

import pytest

import ember as torch
from ember.autograd import gradcheck, gradgradcheck

UNARY = ["abs", "angle", "cos", "exp", "log", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin",
         "sqrt", "square", "tanh"]  # fmt: skip


def leaf(seed, dtype=torch.complex128):
    torch.manual_seed(seed)
    return torch.randn(3, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    function = getattr(torch, name)
    assert gradcheck(function, leaf(0))
    assert gradgradcheck(function, leaf(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a**b,
        lambda a, b: a * b.conj(),
        lambda a, b: (a * b).real * a,
        lambda a, b: torch.where(a.real > 0, a * b, b * b),
        lambda a, b: torch.lerp(a, b, 0.3),
    ],
)
def test_functions_of_two_numbers(function):
    assert gradgradcheck(function, (leaf(0), leaf(1)))


def test_a_real_factor():
    assert gradgradcheck(lambda a, b: a * b, (leaf(0), leaf(1, torch.float64)))
