"""A recurrent layer as one op is what the composition of its steps is."""

import pytest

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.ops.recurrent_layers import is_one_op, recurrent
from ember.ops.recurrent_steps import STEPS, Weights, compose

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def numbers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5
    if len(shape) == 2:  # of such a size that errors do not grow from step to step
        values = values * min(1.0, 3.0 / shape[-1] ** 0.5)
    return values.to(dtype).requires_grad_()


def layer(kind, sizes, biased=True, dtype=torch.float64, inputs=3, width=2):
    """Input, weights and first states of a layer; `sizes` is (steps, batch) or a packed batch's."""
    shape = sizes if isinstance(sizes, tuple) else (sum(sizes),)
    batch = sizes[1] if isinstance(sizes, tuple) else sizes[0]
    rows = GATES[kind] * width
    shapes = [(rows, inputs), (rows, width), *([(rows,), (rows,)] if biased else [])]
    made = [numbers(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]
    states = [numbers(batch, width, dtype=dtype, seed=7 + i) for i in range(1 + (kind == "lstm"))]
    return numbers(*shape, inputs, dtype=dtype, seed=9), made, states


def whole(kind, sizes, reverse, input, weights, states):
    weights = [*weights, None, None][:4]
    lengths = torch.tensor(sizes) if isinstance(sizes, list) else None
    made = recurrent(input, *weights, list(states), lengths, kind, reverse, True)
    return made[: 1 + len(states)]


def composed(kind, sizes, reverse, input, weights, states):
    lengths = sizes if isinstance(sizes, list) else None
    output, last = compose(STEPS[kind], input, lengths, tuple(states), Weights(*weights), reverse)
    return (output, *last)


def results(function, kind, sizes, reverse, given):
    input, weights, states = given
    made = function(kind, sizes, reverse, input, weights, states)
    loss = sum((m * (m + 0.3)).sum() for m in made)
    return [*made, *torch.autograd.grad(loss, [input, *weights, *states])]


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sizes", [(4, 3), (1, 1), [3, 3, 2, 1], [4]])
def test_values_and_gradients(kind, reverse, biased, sizes):
    given = layer(kind, sizes, biased)
    assert is_one_op(given[0], given[2], Weights(*given[1]))
    mine = results(whole, kind, sizes, reverse, given)
    steps = results(composed, kind, sizes, reverse, given)
    for one, other in zip(mine, steps, strict=True):
        torch.testing.assert_close(one, other, atol=1e-13, rtol=1e-11)


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("width", [37, 64])
@pytest.mark.parametrize("sizes", [(20, 13), [40, 40, 17, 9, 3]])
def test_compiled_formulas(kind, width, sizes):
    given = layer(kind, sizes, dtype=torch.float32, inputs=5, width=width)
    exact = layer(kind, sizes, inputs=5, width=width)
    mine = results(whole, kind, sizes, True, given)
    steps = results(composed, kind, sizes, True, exact)
    for one, other in zip(mine, steps, strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one.double(), other, atol=2e-5 * scale, rtol=0)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("sizes", [(2, 1), [2, 1]])
def test_second_derivatives(kind, sizes):
    input, weights, states = layer(kind, sizes, inputs=1, width=1)

    def function(input, *rest):
        return whole(kind, sizes, False, input, rest[: len(weights)], rest[len(weights) :])

    assert gradcheck(function, (input, *weights, *states))
    assert gradgradcheck(function, (input, *weights, *states))


def test_a_tensor_given_twice_has_the_sum_of_both_gradients():
    square = numbers(4, 4)
    bias, first = numbers(4, seed=1), numbers(1, 4, seed=2)
    input = numbers(3, 1, 4, seed=3)

    def gradient(create_graph):
        output, _ = torch.rnn_tanh(
            input, first[None], [square, square, bias, bias], True, 1, 0.0, False, False, False
        )
        return torch.autograd.grad(output.sum(), [square, bias], create_graph=create_graph)

    for one, other in zip(gradient(False), gradient(True), strict=True):
        torch.testing.assert_close(one, other.detach(), atol=1e-13, rtol=1e-11)


def test_outputs_may_be_written_before_the_backward_pass():
    torch.manual_seed(0)
    network = torch.nn.LSTM(2, 3)
    output, _ = network(torch.ones(4, 1, 2))
    output.mul_(2)
    output.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_vmap_takes_the_composition():
    network = torch.nn.GRU(2, 3)
    batches = numbers(5, 4, 2, dtype=torch.float32)
    found = torch.vmap(lambda x: network(x)[0])(batches.detach())
    for one, x in zip(found, batches.detach()):
        torch.testing.assert_close(one, network(x)[0])
