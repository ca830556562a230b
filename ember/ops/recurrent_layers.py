"""A recurrent layer in one direction as one op, on the CPU."""

from ember.backends.library import Library
from ember.core import engine, modes
from ember.core.node import edge_of
from ember.core.registry import library_op
from ember.core.second_order import AliasBackward0
from ember.core.tensor import connected
from ember.dtypes import float32, float64
from ember.ops.recurrent_steps import STEPS, Weights, compose

KEPT = {"lstm": 4, "gru": 4, "rnn_tanh": 1, "rnn_relu": 1}  # matrices that a gradient needs


def is_one_op(input, states, weights):
    """Whether a layer of these tensors runs as one op: on the CPU, in single or double precision,
    without a projection, outside of transforms, and where the shapes go together."""
    w_ih, w_hh = weights.w_ih, weights.w_hh
    rows, width = w_hh.shape if w_hh.dim() == 2 else (0, 0)
    biases = [b for b in (weights.b_ih, weights.b_hh) if b is not None]
    tensors = (input, *states, w_ih, w_hh, *biases)
    return (
        input.device.type == "cpu"
        and not modes.state.levels
        and weights.w_hr is None
        and input.dtype in (float32, float64)
        and all(t.dtype is input.dtype for t in tensors)
        and width > 0
        and input.dim() in (2, 3)
        and tuple(w_ih.shape) == (rows, input.size(-1))
        and all(tuple(b.shape) == (rows,) for b in biases)
        and all(s.dim() == 2 and s.size(1) == width for s in states)
        and (input.dim() == 2 or all(s.size(0) == input.size(1) for s in states))
    )


@library_op(Library.recurrent)
def recurrent(input, w_ih, w_hh, b_ih, b_hh, states, sizes, kind, reverse, keep):
    """Outputs and last states of a layer; with `keep` also what its gradient needs."""
    width, spec = w_hh.size(1), input.spec
    rows = input.shape[:-1].numel()
    made = [spec.with_shape((*input.shape[:-1], width))]
    made += [spec.with_shape((s.size(0), width)) for s in states]
    if keep:
        made += [spec.with_shape((rows, n * width)) for n in (KEPT[kind], len(states))]
    return tuple(made)


@library_op(Library.recurrent_backward)
def recurrent_backward(
    grads, kept, before, input, w_ih, w_hh, biased, sizes, kind, reverse, wants_input
):
    """The gradients of input, weights, biases and first states; the input's has no elements unless
    it `wants_input`."""
    spec, rows = w_ih.spec, w_ih.size(0)
    width = w_hh.size(1)
    batch = input.size(1) if sizes is None else int(sizes.max())
    made = [input.spec.with_shape(tuple(input.shape) if wants_input else (0,))]
    made += [spec.with_shape(tuple(w.shape)) for w in (w_ih, w_hh)]
    made += [spec.with_shape((rows,))] * (2 if biased else 0)
    made += [spec.with_shape((batch, width))] * (before.size(1) // width)
    return tuple(made)


def _gradient(g, input, w_ih, w_hh, b_ih, b_hh, states, sizes, kind, reverse, result, needs):
    count = len(states)
    grads = list(g[: count + 1])
    if modes.state.grad or modes.state.levels:
        return _composed_gradient(
            grads, input, w_ih, w_hh, b_ih, b_hh, states, sizes, kind, reverse, needs
        )
    kept, before = result
    biased = b_ih is not None
    settings = (sizes, kind, reverse, needs[0])
    made = recurrent_backward(grads, kept, before, input, w_ih, w_hh, biased, *settings)
    by_input = made[0] if needs[0] else None
    biases = made[3:5] if biased else ()
    lengths = () if sizes is None else (None,)
    return (by_input, *made[1:3], *biases, *made[-count:], *lengths)


recurrent.grad = _gradient
recurrent.saved_results = slice(-2, None)  # the others are the user's, who may write them


def _composed_gradient(grads, input, w_ih, w_hh, b_ih, b_hh, states, sizes, kind, reverse, needs):
    """The same as the gradient of the composition of the steps, which can be derived again."""
    recording = modes.state.grad
    with modes.enable_grad():
        given = [input, w_ih, w_hh, *([] if b_ih is None else [b_ih, b_hh]), *states]
        # Each is an input of its own, even where one tensor is given twice.
        inputs = [_alias(t) for t in given]
        count = len(given) - len(states)
        state, weights = tuple(inputs[count:]), Weights(*inputs[1:count])
        lengths = None if sizes is None else sizes.tolist()
        output, last = compose(STEPS[kind], inputs[0], lengths, state, weights, reverse)
        sent = [(o, g) for o, g in zip((output, *last), grads) if g is not None]
    wanted = [t for t, needed in zip(inputs, needs) if needed]
    found = iter(
        engine.run(
            [edge_of(o) for o, _ in sent],
            [g for _, g in sent],
            retain_graph=recording,
            create_graph=recording,
            inputs=[edge_of(t) for t in wanted],
            accumulate=False,
        )
    )
    made = [next(found) if needed else None for _, needed in zip(inputs, needs)]
    return (*made, *(() if sizes is None else (None,)))


def _alias(tensor):
    node = AliasBackward0((edge_of(tensor),), (tensor._array.spec,))
    return connected(tensor._array, node)
