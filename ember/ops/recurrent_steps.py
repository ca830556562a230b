"""Steps of recurrent networks, and sequences of them, as compositions of other ops."""

from ember.core.registry import elementwise
from ember.dtypes import FLOATING
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


class Weights:
    """The weights of one layer in one direction; biases and projection may be None."""

    def __init__(self, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None):
        self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.w_hr = w_ih, w_hh, b_ih, b_hh, w_hr


def lstm_step(gates, state, weights):
    """h, c after one step of an LSTM: gates are the input's share, (N, 4·hidden)."""
    h, c = state
    gates = gates + linear(h, weights.w_hh)
    i, f, g, o = gates.chunk(4, 1)
    c = next_cell(i, f, g, c)
    h = gated_output(o, c)
    return (h if weights.w_hr is None else linear(h, weights.w_hr), c)


def gru_step(gates, state, weights):
    """h after one step of a GRU: gates are the input's share, (N, 3·hidden)."""
    (h,) = state
    hidden = linear(h, weights.w_hh, weights.b_hh)
    return (next_gru_state(*gates.chunk(3, 1), *hidden.chunk(3, 1), h),)


def tanh_step(gates, state, weights):
    """tanh(gates + W_hh·h + b_hh), the step of a plain recurrent layer."""
    return (tanh_of_sum(gates, linear(state[0], weights.w_hh)),)


def relu_step(gates, state, weights):
    """relu(gates + W_hh·h + b_hh), the step of a plain recurrent layer with ReLU."""
    return (relu_of_sum(gates, linear(state[0], weights.w_hh)),)


def input_bias(step, weights):
    """The bias that can join the inputs' product: both, but for the GRU, whose r gates one."""
    if weights.b_ih is None or step is gru_step:
        return weights.b_ih
    return weights.b_ih + weights.b_hh


def scan(step, gates, state, weights, reverse):
    """All steps of a padded batch: gates (T, N, G) to (outputs (T, N, H), last state)."""
    steps = gates.unbind(0)
    outputs = []
    for own in reversed(steps) if reverse else steps:
        state = step(own, state, weights)
        outputs.append(state[0])
    return stack(outputs[::-1] if reverse else outputs), state


def scan_packed(step, gates, sizes, state, weights, reverse):
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


def compose(step, input, sizes, state, weights, reverse):
    """A layer in one direction: (T, N, in), or packed rows and their `sizes`, to (outputs, last
    state)."""
    gates = linear(input, weights.w_ih, input_bias(step, weights))
    if sizes is None:
        return scan(step, gates, state, weights, reverse)
    return scan_packed(step, gates, sizes, state, weights, reverse)


STEPS = {
    "lstm": lstm_step,
    "gru": gru_step,
    "rnn_tanh": tanh_step,
    "rnn_relu": relu_step,
}
