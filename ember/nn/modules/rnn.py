"""Recurrent modules over whole sequences: `RNN`, `LSTM`, `GRU`; their cells are in rnn_cells.py."""

import math
import numbers

import ember.ops as ops
from ember.core.modes import autocast_state
from ember.errors import check
from ember.nn import init
from ember.nn.modules.module import Module
from ember.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from ember.nn.parameter import Parameter
from ember.nn.utils.rnn import PackedSequence
from ember.source_lines import warn

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_FUNCTIONS = {
    "LSTM": ops.lstm,
    "GRU": ops.gru,
    "RNN_TANH": ops.rnn_tanh,
    "RNN_RELU": ops.rnn_relu,
}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: the weights of every layer and direction, and the checks.

    The weights of layer k are `weight_ih_lk` (gates·hidden, inputs), `weight_hh_lk`
    (gates·hidden, hidden), `bias_ih_lk`, `bias_hh_lk` and, for an LSTM with projections,
    `weight_hr_lk` (projection, hidden); those of the other direction end in `_reverse`.
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_sizes(self, dropout)
        check(mode in _GATES, ValueError, f"Unrecognized RNN mode: {mode}")
        self._all_weights = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._add_layer(layer, suffix, device, dtype)
        self.reset_parameters()

    def _add_layer(self, layer, suffix, device, dtype):
        """Make the parameters of one layer in one direction."""
        rows = _GATES[self.mode] * self.hidden_size
        state = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        inputs = self.input_size if layer == 0 else state * directions
        shapes = [("weight_ih", (rows, inputs)), ("weight_hh", (rows, state))]
        if self.bias:
            shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))]
        if self.proj_size:
            shapes.append(("weight_hr", (self.proj_size, self.hidden_size)))
        names = []
        for kind, shape in shapes:
            names.append(f"{kind}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(ops.empty(shape, device=device, dtype=dtype)))
        self._all_weights.append(names)

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name, None) for name in self._flat_weights_names]

    def __getstate__(self):
        """With the lists that PyTorch's networks hold, so that it can load the whole module."""
        lists = {"_flat_weights_names": self._flat_weights_names}
        return {**vars(self), **lists, "_flat_weights": self._flat_weights}

    def __setstate__(self, state):
        computed = ("_flat_weights_names", "_flat_weights")
        super().__setstate__({name: v for name, v in state.items() if name not in computed})

    @property
    def all_weights(self):
        """The parameters of each layer and direction, as lists."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Nothing: weights need not lie in one block here. Kept so that callers may call it."""

    def reset_parameters(self):
        """Draw every weight and bias anew from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        """Raise for an input of another dtype, rank or feature count than the weights'."""
        weight = self._flat_weights[0]
        if not autocast_state(input.device.type)[0]:
            check(
                input.dtype == weight.dtype,
                ValueError,
                lambda: (
                    f"RNN input dtype ({input.dtype}) does not match weight dtype "
                    f"({weight.dtype}). Convert input: input.to({weight.dtype}), or convert "
                    f"model: model.to({input.dtype})"
                ),
            )
        rank = 2 if batch_sizes is not None else 3
        check(
            input.dim() == rank,
            RuntimeError,
            lambda: f"input must have {rank} dimensions, got {input.dim()}",
        )
        check(
            input.size(-1) == self.input_size,
            RuntimeError,
            lambda: (
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            ),
        )

    def _batch(self, input, batch_sizes):
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input, batch_sizes):
        """(layers · directions, batch, size of a state)."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return layers, self._batch(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Raise RuntimeError for a hidden state of another shape."""
        check(
            tuple(hx.size()) == tuple(expected_hidden_size),
            RuntimeError,
            lambda: msg.format(expected_hidden_size, list(hx.size())),
        )

    def check_forward_args(self, input, hidden, batch_sizes):
        """Raise for an input or a hidden state that does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The hidden state with its batch in the order of `permutation`, if there is one."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        defaults |= {"dropout": 0, "bidirectional": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    def _rank_message(self, input):
        word = " tensor" if self.mode.startswith("RNN") else ""
        return (
            f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D{word} instead"
        )

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        check(input.dim() in (2, 3), ValueError, lambda: self._rank_message(input))
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            hx = self._first_state(input, None)
        else:
            self._check_state_rank(hx, batched)
            if not batched:
                hx = self._map_state(lambda h: h.unsqueeze(1), hx)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, hx, None)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            hidden = self._map_state(lambda h: h.squeeze(1), hidden)
        return output, hidden

    def _forward_packed(self, sequence, hx):
        data, batch_sizes, sorted_indices, unsorted_indices = sequence
        if hx is None:
            hx = self._first_state(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, hx, batch_sizes)
        packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return packed, self.permute_hidden(hidden, unsorted_indices)

    def _check_state_rank(self, hx, batched):
        rank = 3 if batched else 2
        name = f"{'' if batched else 'un'}batched {rank}-D"
        check(
            hx.dim() == rank,
            RuntimeError,
            lambda: f"For {name} input, hx should also be {rank}-D but got {hx.dim()}-D tensor",
        )

    def _map_state(self, function, hx):
        return function(hx)

    def _first_state(self, input, batch_sizes):
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return ops.zeros(shape, dtype=input.dtype, device=input.device)

    def _split(self, outputs):
        """(output, hidden state) of what the function over the whole sequence returns."""
        return outputs

    def _run(self, input, hx, batch_sizes):
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        function = _FUNCTIONS[self.mode]
        if batch_sizes is None:
            return self._split(function(input, hx, self._flat_weights, *settings, self.batch_first))
        return self._split(function(input, batch_sizes, hx, self._flat_weights, *settings))


def _check_sizes(module, dropout):
    check(
        isinstance(dropout, numbers.Number) and not isinstance(dropout, bool) and 0 <= dropout <= 1,
        ValueError,
        "dropout should be a number in range [0, 1] representing the probability of an element "
        "being zeroed",
    )
    if dropout > 0 and module.num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={module.num_layers}",
        )
    for name in ("input_size", "hidden_size", "num_layers"):
        value = getattr(module, name)
        check(
            isinstance(value, int),
            TypeError,
            f"{name} should be of type int, got: {type(value).__name__}",
        )
        check(value > 0, ValueError, f"{name} must be greater than zero")
    for name in ("bias", "batch_first"):
        value = getattr(module, name)
        kind = type(value).__name__
        check(isinstance(value, bool), TypeError, f"{name} should be of type bool, got: {kind}")
    check(
        module.proj_size >= 0,
        ValueError,
        "proj_size should be a positive integer or zero to disable projections",
    )
    check(
        module.proj_size < module.hidden_size,
        ValueError,
        "proj_size has to be smaller than hidden_size",
    )


_NO_PROJECTION = "proj_size argument is only supported for LSTM, not RNN or GRU"


class RNN(RNNBase):
    """The Elman network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu, in layers.

    Input (T, N, in), (N, T, in) if `batch_first`, (T, in), or a PackedSequence; `hx`
    (layers·directions, N, hidden), zeros if not given. Returns the last layer's states at all
    steps and every layer's last state.

    >>> import ember as torch
    >>> output, hidden = torch.nn.RNN(2, 3, num_layers=2)(torch.zeros(5, 1, 2))
    >>> output.shape, hidden.shape
    (torch.Size([5, 1, 3]), torch.Size([2, 1, 3]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", *args, **kwargs):
        check("proj_size" not in kwargs, ValueError, _NO_PROJECTION)
        check(
            nonlinearity in ("tanh", "relu"),
            ValueError,
            f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
        )
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """The gated recurrent unit (Cho et al., arXiv:1406.1078), in layers.

    r, z = σ(W x + U h + b); n = tanh(W_n x + b_n + r·(U_n h + c_n)); h' = (1 − z)·n + z·h.
    Shapes as in `RNN`.

    >>> import ember as torch
    >>> output, hidden = torch.nn.GRU(2, 3, bidirectional=True)(torch.zeros(5, 1, 2))
    >>> output.shape, hidden.shape
    (torch.Size([5, 1, 6]), torch.Size([2, 1, 3]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, *args, **kwargs):
        check("proj_size" not in kwargs, ValueError, _NO_PROJECTION)
        super().__init__("GRU", input_size, hidden_size, num_layers, *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), in layers.

    i, f, o = σ(W x + U h + b); g = tanh(W_g x + U_g h + b_g); c' = f·c + i·g; h' = o·tanh(c'),
    times `weight_hr` if `proj_size`. Shapes as in `RNN`; the hidden state is a pair (h, c).

    >>> import ember as torch
    >>> output, (h, c) = torch.nn.LSTM(2, 3, batch_first=True)(torch.zeros(1, 5, 2))
    >>> output.shape, h.shape, c.shape
    (torch.Size([1, 5, 3]), torch.Size([1, 1, 3]), torch.Size([1, 1, 3]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, *args, **kwargs):
        super().__init__("LSTM", input_size, hidden_size, num_layers, *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        """(layers · directions, batch, hidden size)."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return layers, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size, self.get_expected_cell_size
        for i, expected in enumerate(sizes):
            message = f"Expected hidden[{i}] size {{}}, got {{}}"
            self.check_hidden_size(hidden[i], expected(input, batch_sizes), message)

    def permute_hidden(self, hx, permutation):
        permute = super().permute_hidden
        return tuple(permute(state, permutation) for state in hx)

    def _check_state_rank(self, hx, batched):
        rank = 3 if batched else 2
        name = f"{'' if batched else 'un'}batched {rank}-D"
        check(
            hx[0].dim() == rank and hx[1].dim() == rank,
            RuntimeError,
            lambda: (
                f"For {name} input, hx and cx should also be {rank}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            ),
        )

    def _map_state(self, function, hx):
        return tuple(function(state) for state in hx)

    def _first_state(self, input, batch_sizes):
        sizes = self.get_expected_hidden_size, self.get_expected_cell_size
        return tuple(
            ops.zeros(size(input, batch_sizes), dtype=input.dtype, device=input.device)
            for size in sizes
        )

    def _split(self, outputs):
        return outputs[0], tuple(outputs[1:])


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
