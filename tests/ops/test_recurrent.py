"""Recurrent functions: derivatives, packed against padded batches, errors."""

import pytest

import ember as torch
from ember.autograd import gradcheck


def waves(*shape, phase=0.0):
    count = 1
    for size in shape:
        count *= size
    values = (torch.arange(count, dtype=torch.float64) * 1.7 + phase).sin()
    return values.reshape(shape).requires_grad_()


def weights(gates, inputs=2, hidden=3):
    rows = gates * hidden
    shapes = [(rows, inputs), (rows, hidden), (rows,), (rows,)]
    return [waves(*shape, phase=place) for place, shape in enumerate(shapes)]


STATE = waves(1, 2, 3, phase=0.4)


def run(name, x, state, params, sizes=None):
    function = getattr(torch, name)
    hx = (state, state) if name == "lstm" else state
    settings = (params, True, 1, 0.0, False, False)
    if sizes is not None:
        return function(x, sizes, hx, *settings)
    return function(x, hx, *settings, False)


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
def test_derivatives(name, gates):
    x, params = waves(2, 2, 2), weights(gates)
    assert gradcheck(lambda x, h, *w: run(name, x, h, list(w)), (x, STATE, *params))


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn_relu", 1)])
def test_a_packed_batch_is_two_sequences(name, gates):
    params = weights(gates)
    long, short = waves(3, 1, 2), waves(2, 1, 2, phase=2.0)
    packed = torch.cat([long[:1, 0], short[:1, 0], long[1:2, 0], short[1:, 0], long[2:, 0]])
    found = run(name, packed, STATE, params, torch.tensor([2, 2, 1]))
    first = run(name, long, STATE[:, :1], params)
    second = run(name, short, STATE[:, 1:], params)
    assert_near(found[0][[0, 2, 4]], first[0][:, 0])
    assert_near(found[0][[1, 3]], second[0][:, 0])
    for mine, one, two in zip(found[1:], first[1:], second[1:]):
        assert_near(mine, torch.cat([one, two], 1))


def assert_near(mine, theirs):
    assert mine.shape == theirs.shape
    assert mine.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), abs=1e-12)


def test_both_ways_is_once_each_way():
    x, params, back = waves(4, 2, 2), weights(3), [w * 0.5 for w in weights(3)]
    states = torch.cat([STATE, STATE * 2])
    output, last = torch.gru(x, states, params + back, True, 1, 0.0, False, True, False)
    forward = run("gru", x, states[:1], params)
    backward = run("gru", x.flip(0), states[1:], back)
    assert_near(output, torch.cat([forward[0], backward[0].flip(0)], 2))
    assert_near(last, torch.cat([forward[1], backward[1]]))


def test_dropout_between_layers():
    x, params = waves(4, 2, 3), weights(1, inputs=3)
    states = torch.cat([STATE, STATE])

    def outputs(train):
        return torch.rnn_tanh(x, states, params * 2, True, 2, 0.5, train, False, False)[0]

    torch.manual_seed(0)
    first = outputs(True)
    assert first.tolist() != outputs(True).tolist()
    assert outputs(False).tolist() == outputs(False).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: run("rnn_tanh", waves(0, 2, 2), STATE, weights(1)),
            RuntimeError,
            "Expected sequence length to be larger than 0 in RNN",
        ),
        (
            lambda: run("rnn_tanh", waves(1, 2, 2), STATE.float(), weights(1)),
            RuntimeError,
            "Input and hidden tensors are not the same dtype",
        ),
        (
            lambda: torch.gru_cell(waves(2, 3), waves(2, 3), *weights(3)),
            RuntimeError,
            "input has inconsistent input_size: got 3 expected 2",
        ),
        (
            lambda: torch.gru_cell(waves(2, 2), waves(3, 3), *weights(3)),
            RuntimeError,
            "Input batch size 2 doesn't match hidden0 batch size 3",
        ),
        (
            lambda: torch.lstm_cell(waves(2, 2), (waves(2, 3), waves(2, 4)), *weights(4)),
            RuntimeError,
            "hidden1 has inconsistent hidden_size: got 4, expected 3",
        ),
        (
            lambda: torch.lstm_cell(waves(2, 2), waves(2, 3), *weights(4)),
            TypeError,
            "argument 'hx' .* must be tuple of Tensors, not Tensor",
        ),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
