"""Batch normalization of the CPU against its definition in double precision: every layout, tails of
vectors, few and many elements."""

import numpy as np
import pytest

import ember as torch
from ember.backends.cpu import threads
from ember.backends.cpu.batch_norm import batch_norm, batch_norm_backward, batch_norm_given

SHAPES = [
    (8, 64, 32, 32), (5, 3, 7, 9), (4, 5), (300, 37), (2, 3, 1, 1), (3, 4, 17), (1, 2, 3000),
    (2, 16, 4, 4), (2, 1, 1), (3, 2, 2, 3, 4),
]  # fmt: skip


def given(shape, last):
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(shape) * 3 + 2).astype(np.float32)
    if last:
        order = (0, *range(2, len(shape)), 1)
        x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    g, w, b = (generator.standard_normal(s).astype(np.float32) for s in (shape, shape[1], shape[1]))
    return x, g, w, b


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_and_gradients(shape, last):
    x, g, w, b = given(shape, last and len(shape) > 2)
    dims, along = (0, *range(2, len(shape))), (1, -1, *(1,) * (len(shape) - 2))
    wide, count = x.astype(np.float64), x.size // shape[1]
    mean, var = wide.mean(dims), wide.var(dims)
    root = 1 / np.sqrt(var + 1e-5)
    centered = wide - mean.reshape(along)
    out, found_mean, found_var = batch_norm(x, w, b, 1e-5)
    expected = centered * (root * w).reshape(along) + b.reshape(along)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_var, var, rtol=2e-5, atol=1e-6)
    total, product = g.sum(dims, dtype=np.float64), (g * centered).sum(dims)
    means = (total / count).reshape(along), (product * root**2 / count).reshape(along)
    expected = (root * w).reshape(along) * (g - means[0] - centered * means[1])
    slope, sums, products = batch_norm_backward(g, x, w, found_mean, found_var, 1e-5)
    scale = max(1, np.abs(root * w).max())
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=3e-5 * scale)
    np.testing.assert_allclose(sums, total, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(products, product, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 5, 33, 37)])
def test_given_statistics(shape, last):
    x, _, w, b = given(shape, last and len(shape) > 2)
    generator = np.random.default_rng(1)
    mean, var = generator.standard_normal(shape[1]), generator.random(shape[1])
    mean, var = mean.astype(np.float32), var.astype(np.float32)
    along = (1, -1, *(1,) * (len(shape) - 2))
    root = 1 / np.sqrt(var.astype(np.float64) + 1e-5)
    normal = (x.astype(np.float64) - mean.reshape(along)) * root.reshape(along)
    expected = normal * w.reshape(along) + b.reshape(along)
    bound = 1e-6 * np.abs(expected).max()
    found = batch_norm_given(x, w, b, mean, var, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=bound)
    found = batch_norm_given(x[::-1], None, None, mean, var, 1e-5)
    np.testing.assert_allclose(found, normal[::-1], rtol=1e-5, atol=bound)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_evaluation_is_the_same_with_and_without_a_graph(order):
    module = torch.nn.BatchNorm2d(6).eval()
    module.running_mean.normal_()
    module.running_var.uniform_(0.5, 2.0)
    x = torch.randn(4, 6, 20, 20).to(memory_format=order)
    recorded = module(x)
    assert recorded.requires_grad
    with torch.no_grad():
        found = module(x)
    assert not found.requires_grad
    assert found.is_contiguous(memory_format=order)
    torch.testing.assert_close(found, recorded.detach(), atol=1e-5, rtol=1e-5)


def test_without_weights_and_of_any_strides():
    x, g, _, _ = given((4, 6, 10, 8), False)
    part = x[:, ::2, 1:9, :]
    found = batch_norm(part, None, None, 1e-5)
    again = batch_norm(np.ascontiguousarray(part), None, None, 1e-5)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)
    found = batch_norm_backward(g[:, ::2, 1:9, :], part, None, *again[1:], 1e-5)[0]
    assert found.shape == part.shape and abs(found.sum((0, 2, 3))).max() < 1e-3


def test_means_of_many_elements_keep_their_digits():
    x = np.full((1 << 20, 3), 1000.1, np.float32)
    x[::2] += 1
    _, mean, var = batch_norm(x, None, None, 1e-5)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(0), rtol=1e-7)
    np.testing.assert_allclose(var, x.astype(np.float64).var(0), rtol=1e-4)


def test_threads_give_the_same():
    x, _, w, b = given((8, 64, 16, 16), False)
    before = threads.count()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(batch_norm(x, w, b, 1e-5))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_modules_use_it_and_can_be_derived_twice():
    module = torch.nn.BatchNorm2d(3)
    x = torch.randn(4, 3, 5, 5, requires_grad=True)
    out = module(x)
    assert out.grad_fn.name() == "NativeBatchNormBackward0"
    (slope,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
    (twice,) = torch.autograd.grad(slope.pow(2).sum(), x)
    wide = torch.nn.BatchNorm2d(3).double()
    y = x.detach().double().requires_grad_()
    (slope64,) = torch.autograd.grad(wide(y).pow(3).sum(), y, create_graph=True)
    (twice64,) = torch.autograd.grad(slope64.pow(2).sum(), y)
    torch.testing.assert_close(slope, slope64.float(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(twice, twice64.float(), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(module.running_var, wide.running_var.float())
    torch.testing.assert_close(module.running_mean, wide.running_mean.float())


@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (4, 17, 9, 20)])
def test_training_with_channels_last_is_that_with_channels_first(shape):
    x, g, w, b = (torch.tensor(a) for a in given(shape, False))
    results = []
    for order in (torch.contiguous_format, torch.channels_last):
        image = x.to(memory_format=order).detach().requires_grad_()
        weight, bias = (a.clone().requires_grad_() for a in (w, b))
        y = torch.nn.functional.batch_norm(image, None, None, weight, bias, True)
        assert y.is_contiguous(memory_format=order)
        y.backward(g.to(memory_format=order))
        assert image.grad.is_contiguous(memory_format=order)
        results.append([y.detach(), image.grad, weight.grad, bias.grad])
    for plain, turned in zip(*results, strict=True):
        torch.testing.assert_close(turned, plain, atol=2e-5, rtol=2e-5)
