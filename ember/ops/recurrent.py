"""Recurrent networks over sequences: `lstm`, `gru`, `rnn_tanh`, `rnn_relu`, and one step of each.

A layer in one direction is one op on the CPU (recurrent_layers.py), else a composition of its steps
(recurrent_steps.py).
"""

import itertools

from ember.core import dispatch
from ember.core.registry import FUNCTION, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.dropout import dropout
from ember.ops.joining import cat, stack
from ember.ops.linear import linear
from ember.ops.matrices import records
from ember.ops.recurrent_layers import is_one_op, recurrent
from ember.ops.recurrent_steps import STEPS, Weights, compose, input_bias


def _layer(kind, input, sizes, state, weights, reverse):
    """A layer in one direction; (outputs, last state)."""
    if not is_one_op(input, state, weights):
        lengths = None if sizes is None else sizes.tolist()
        return compose(STEPS[kind], input, lengths, state, weights, reverse)
    parameters = (weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh)
    keep = records(input, *state, *(p for p in parameters if p is not None))
    output, *rest = recurrent(input, *parameters, list(state), sizes, kind, reverse, keep)
    return output, tuple(rest[: len(state)])


def _run(kind, input, sizes, states, params, settings):
    """Every layer and direction; (outputs, the last states of each, stacked)."""
    has_biases, num_layers, p, train, bidirectional = settings
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    groups = [Weights(*_arranged(group, has_biases)) for group in _batched(params, count)]
    last = []
    for layer in range(num_layers):
        found = []
        for direction in range(directions):
            number = layer * directions + direction
            weights, state = groups[number], tuple(s[number] for s in states)
            output, state = _layer(kind, input, sizes, state, weights, direction == 1)
            found.append(output)
            last.append(state)
        input = found[0] if directions == 1 else cat(found, -1)
        if p > 0 and train and layer < num_layers - 1:
            input = dropout(input, p)
    return input, tuple(stack(list(kind)) for kind in zip(*last))


def _batched(values, count):
    values = iter(values)
    while group := list(itertools.islice(values, count)):
        yield group


def _arranged(group, has_biases):
    """A group in the order of `Weights`: without biases the projection comes third."""
    if has_biases or len(group) == 2:
        return group
    return [*group[:2], None, None, *group[2:]]


def _check_places(input, states, params):
    """RuntimeError unless input, states and parameters are on one device."""
    for kind, tensors in (("hidden", states), ("parameter", params)):
        for tensor in tensors:
            check(
                tensor.device == input.device,
                RuntimeError,
                lambda: (
                    f"Input and {kind} tensors are not at the same device, found input tensor at "  # noqa: B023
                    f"{input.device} and {kind} tensor at {tensor.device}. Move one, for example "  # noqa: B023
                    f"with .to('{input.device}')."
                ),
            )


def _check_types(input, states):
    for state in states:
        check(
            state.dtype is input.dtype,
            RuntimeError,
            lambda: (
                "Input and hidden tensors are not the same dtype, found input tensor with "
                f"{input.dtype.title} and hidden tensor with {state.dtype.title}"  # noqa: B023
            ),
        )


def _sequence(name, arguments):
    """`torch.NAME` of (input, hx, params, ...) or (data, batch_sizes, hx, params, ...)."""
    packed = isinstance(arguments[3], (list, tuple)) and isinstance(arguments[1], Tensor)
    if packed:
        data, batch_sizes, hx, params, *settings = arguments
        batch_first, sizes = False, batch_sizes
    else:
        data, hx, params, *settings, batch_first = arguments
        sizes = None
    states, params = (tuple(hx) if name == "lstm" else (hx,)), list(params)
    _check_places(data, states, params)
    data, states, params = dispatch.autocast(name, [data, states, params])
    _check_types(data, states)
    if batch_first:
        data = data.transpose(0, 1)
    if sizes is None:
        message = "Expected sequence length to be larger than 0 in RNN"
        check(data.size(0) > 0, RuntimeError, message)
    output, last = _run(name, data, sizes, states, params, settings)
    return (output.transpose(0, 1) if batch_first else output, *last)


@composite(export=FUNCTION)
def lstm(*args):
    """An LSTM over a sequence, (input, (h, c), weights, has_biases, num_layers, dropout, train,
    bidirectional, batch_first), or packed, (data, batch_sizes, (h, c), weights, ...).

    Returns (output, h, c). RuntimeError for tensors on different devices. See `torch.nn.LSTM`.
    """
    return _sequence("lstm", args)


@composite(export=FUNCTION)
def gru(*args):
    """A GRU over a sequence: as `lstm`, with one state. Returns (output, h). See `torch.nn.GRU`."""
    return _sequence("gru", args)


@composite(export=FUNCTION)
def rnn_tanh(*args):
    """An Elman network over a sequence: as `lstm`, with one state. See `torch.nn.RNN`."""
    return _sequence("rnn_tanh", args)


@composite(export=FUNCTION)
def rnn_relu(*args):
    """An Elman network with relu over a sequence: as `lstm`, with one state. See `torch.nn.RNN`."""
    return _sequence("rnn_relu", args)


def _check_cell(input, w_ih, states, size):
    check(
        input.size(1) == w_ih.size(1),
        RuntimeError,
        lambda: f"input has inconsistent input_size: got {input.size(1)} expected {w_ih.size(1)}",
    )
    for i, state in enumerate(states):
        check(
            state.size(0) == input.size(0),
            RuntimeError,
            lambda: (
                f"Input batch size {input.size(0)} doesn't match hidden{i} batch size "  # noqa: B023
                f"{state.size(0)}"  # noqa: B023
            ),
        )
        check(
            state.size(1) == size,
            RuntimeError,
            lambda: (
                f"hidden{i} has inconsistent hidden_size: got {state.size(1)}, expected {size}"  # noqa: B023
            ),
        )


def _cell(kind, input, states, weights):
    _check_places(input, states, [w for w in weights if w is not None])
    input, states, weights = dispatch.autocast(f"{kind}_cell", [input, states, list(weights)])
    weights = Weights(*weights)
    _check_cell(input, weights.w_ih, states, weights.w_hh.size(1))
    step = STEPS[kind]
    return step(linear(input, weights.w_ih, input_bias(step, weights)), states, weights)


@composite(export=FUNCTION)
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: input (N, in) and hx = (h, c), each (N, hidden), to (h', c')."""
    check(
        isinstance(hx, (tuple, list)),
        TypeError,
        "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor",
    )
    return _cell("lstm", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


@composite(export=FUNCTION)
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU: input (N, in) and hx (N, hidden) to h'."""
    return _cell("gru", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(export=FUNCTION)
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network: h' = tanh(W x + b + U h + c)."""
    return _cell("rnn_tanh", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(export=FUNCTION)
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network with relu: h' = max(W x + b + U h + c, 0)."""
    return _cell("rnn_relu", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]
