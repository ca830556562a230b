"""Recurrent networks over sequences: `lstm`, `gru`, `rnn_tanh`, `rnn_relu`, and one step of each.

The inputs of all steps go through one matrix product; each step then adds the state's and applies
the cell's formula.
"""

import itertools

from ember.core import dispatch
from ember.core.registry import FUNCTION, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.errors import check
from ember.ops.dropout import dropout
from ember.ops.joining import cat, stack
from ember.ops.linear import linear
from ember.scalar.primitives import make, sigmoid, where


@elementwise(accepts=FLOATING)
def next_cell(i, f, new, c):
    """σ(f)·c + σ(i)·tanh(new)."""
    return sigmoid(f) * c + sigmoid(i) * make("tanh", new)


@elementwise(accepts=FLOATING)
def gated_output(o, c):
    """σ(o)·tanh(c)."""
    return sigmoid(o) * make("tanh", c)


@elementwise(accepts=FLOATING)
def next_gru_state(r, z, n, rh, zh, nh, h):
    """(1 − z)·n + z·h with r, z = σ(sums), n = tanh(n + r·nh)."""
    reset, update = sigmoid(r + rh), sigmoid(z + zh)
    new = make("tanh", n + reset * nh)
    return new + update * (h - new)


@elementwise(accepts=FLOATING)
def tanh_of_sum(a, b):
    """tanh(a + b)."""
    return make("tanh", a + b)


@elementwise(accepts=FLOATING)
def relu_of_sum(a, b):
    """max(a + b, 0)."""
    return where(a + b <= 0, 0, a + b)


class _Weights:
    """The weights of one layer in one direction; biases and projection may be None."""

    def __init__(self, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None):
        self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.w_hr = w_ih, w_hh, b_ih, b_hh, w_hr


def _lstm_step(gates, state, weights):
    h, c = state
    gates = gates + linear(h, weights.w_hh)
    i, f, g, o = gates.chunk(4, 1)
    c = next_cell(i, f, g, c)
    h = gated_output(o, c)
    return (h if weights.w_hr is None else linear(h, weights.w_hr), c)


def _gru_step(gates, state, weights):
    (h,) = state
    hidden = linear(h, weights.w_hh, weights.b_hh)
    return (next_gru_state(*gates.chunk(3, 1), *hidden.chunk(3, 1), h),)


def _tanh_step(gates, state, weights):
    return (tanh_of_sum(gates, linear(state[0], weights.w_hh)),)


def _relu_step(gates, state, weights):
    return (relu_of_sum(gates, linear(state[0], weights.w_hh)),)


def _input_bias(step, weights):
    """The bias that can join the inputs' product: both, but for the GRU, whose r gates one."""
    if weights.b_ih is None or step is _gru_step:
        return weights.b_ih
    return weights.b_ih + weights.b_hh


def _scan(step, gates, state, weights, reverse):
    """All steps of a padded batch: gates (T, N, G) to (outputs (T, N, H), last state)."""
    steps = gates.unbind(0)
    outputs = []
    for own in reversed(steps) if reverse else steps:
        state = step(own, state, weights)
        outputs.append(state[0])
    return stack(outputs[::-1] if reverse else outputs), state


def _scan_packed(step, gates, sizes, state, weights, reverse):
    """All steps of a packed batch: gates (Σ sizes, G), `sizes[t]` sequences long enough for step t.

    Forward, the sequences that end leave the batch; backward, they join it.
    """
    steps = gates.split(sizes)
    outputs = []
    if not reverse:
        ended = []
        for own in steps:
            count, size = state[0].size(0), own.size(0)
            if size < count:
                ended.append(tuple(s[size:] for s in state))
                state = tuple(s[:size] for s in state)
            state = step(own, state, weights)
            outputs.append(state[0])
        parts = [state, *reversed(ended)]
        state = tuple(cat(list(p)) if len(p) > 1 else p[0] for p in zip(*parts))
        return cat(outputs), state
    first, state = state, tuple(s[: sizes[-1]] for s in state)
    for own in reversed(steps):
        count, size = state[0].size(0), own.size(0)
        if size > count:
            state = tuple(cat([s, f[count:size]]) for s, f in zip(state, first))
        state = step(own, state, weights)
        outputs.append(state[0])
    return cat(outputs[::-1]), state


def _run(step, input, sizes, states, params, settings):
    """Every layer and direction; (outputs, the last states of each, stacked)."""
    has_biases, num_layers, p, train, bidirectional = settings
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    groups = [_Weights(*_arranged(group, has_biases)) for group in _batched(params, count)]
    last = []
    for layer in range(num_layers):
        found = []
        for direction in range(directions):
            number = layer * directions + direction
            weights, state = groups[number], tuple(s[number] for s in states)
            gates = linear(input, weights.w_ih, _input_bias(step, weights))
            if sizes is None:
                output, state = _scan(step, gates, state, weights, direction == 1)
            else:
                output, state = _scan_packed(step, gates, sizes, state, weights, direction == 1)
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
    """A group in the order of `_Weights`: without biases the projection comes third."""
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


def _sequence(name, step, pair, arguments):
    """`torch.NAME` of (input, hx, params, ...) or (data, batch_sizes, hx, params, ...)."""
    packed = isinstance(arguments[3], (list, tuple)) and isinstance(arguments[1], Tensor)
    if packed:
        data, batch_sizes, hx, params, *settings = arguments
        batch_first, sizes = False, batch_sizes.tolist()
    else:
        data, hx, params, *settings, batch_first = arguments
        sizes = None
    states, params = (tuple(hx) if pair else (hx,)), list(params)
    _check_places(data, states, params)
    data, states, params = dispatch.autocast(name, [data, states, params])
    _check_types(data, states)
    if batch_first:
        data = data.transpose(0, 1)
    if sizes is None:
        message = "Expected sequence length to be larger than 0 in RNN"
        check(data.size(0) > 0, RuntimeError, message)
    output, last = _run(step, data, sizes, states, params, settings)
    return (output.transpose(0, 1) if batch_first else output, *last)


@composite(export=FUNCTION)
def lstm(*args):
    """An LSTM over a sequence, (input, (h, c), weights, has_biases, num_layers, dropout, train,
    bidirectional, batch_first), or packed, (data, batch_sizes, (h, c), weights, ...).

    Returns (output, h, c). RuntimeError for tensors on different devices. See `torch.nn.LSTM`.
    """
    return _sequence("lstm", _lstm_step, True, args)


@composite(export=FUNCTION)
def gru(*args):
    """A GRU over a sequence: as `lstm`, with one state. Returns (output, h). See `torch.nn.GRU`."""
    return _sequence("gru", _gru_step, False, args)


@composite(export=FUNCTION)
def rnn_tanh(*args):
    """An Elman network over a sequence: as `lstm`, with one state. See `torch.nn.RNN`."""
    return _sequence("rnn_tanh", _tanh_step, False, args)


@composite(export=FUNCTION)
def rnn_relu(*args):
    """An Elman network with relu over a sequence: as `lstm`, with one state. See `torch.nn.RNN`."""
    return _sequence("rnn_relu", _relu_step, False, args)


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


def _cell(name, step, input, states, weights):
    _check_places(input, states, [w for w in weights if w is not None])
    input, states, weights = dispatch.autocast(name, [input, states, list(weights)])
    weights = _Weights(*weights)
    _check_cell(input, weights.w_ih, states, weights.w_hh.size(1))
    return step(linear(input, weights.w_ih, _input_bias(step, weights)), states, weights)


@composite(export=FUNCTION)
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: input (N, in) and hx = (h, c), each (N, hidden), to (h', c')."""
    check(
        isinstance(hx, (tuple, list)),
        TypeError,
        "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor",
    )
    return _cell("lstm_cell", _lstm_step, input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


@composite(export=FUNCTION)
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU: input (N, in) and hx (N, hidden) to h'."""
    return _cell("gru_cell", _gru_step, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(export=FUNCTION)
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network: h' = tanh(W x + b + U h + c)."""
    return _cell("rnn_tanh_cell", _tanh_step, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(export=FUNCTION)
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network with relu: h' = max(W x + b + U h + c, 0)."""
    return _cell("rnn_relu_cell", _relu_step, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]
