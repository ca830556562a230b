"""Recurrent cells: one step of an RNN, an LSTM or a GRU."""

import math

import ember.ops as ops
from ember.errors import check
from ember.nn import init
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter


class RNNCellBase(Module):
    """What the cells share: two weights, two biases, and the checks of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        factory = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(ops.empty((rows, input_size), **factory))
        self.weight_hh = Parameter(ops.empty((rows, hidden_size), **factory))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(rows, **factory)) if bias else None)
        self.reset_parameters()

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def reset_parameters(self):
        """Draw every weight and bias anew from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_rank(self, tensor, what):
        check(
            tensor.dim() in (1, 2),
            ValueError,
            lambda: (
                f"{self._get_name()}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead"
            ),
        )

    def _step(self, function, input, hx):
        """One step of a cell with one state; an input without batch gets one on the way."""
        self._check_rank(input, "input")
        batched = input.dim() == 2
        if hx is not None:
            self._check_rank(hx, "hidden")
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = ops.zeros(
                (input.size(0), self.hidden_size), dtype=input.dtype, device=input.device
            )
        elif not batched:
            hx = hx.unsqueeze(0)
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        result = function(input, hx, *weights)
        return result if batched else result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an Elman network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    Input (N, in) or (in,), `hx` (N, hidden), zeros if not given.

    >>> import ember as torch
    >>> torch.nn.RNNCell(2, 3)(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        functions = {"tanh": ops.rnn_tanh_cell, "relu": ops.rnn_relu_cell}
        message = f"Unknown nonlinearity: {self.nonlinearity}"
        check(self.nonlinearity in functions, RuntimeError, message)
        return self._step(functions[self.nonlinearity], input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (h, c) to (h', c').

    >>> import ember as torch
    >>> h, c = torch.nn.LSTMCell(2, 3)(torch.zeros(4, 2))
    >>> h.shape, c.shape
    (torch.Size([4, 3]), torch.Size([4, 3]))
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check_rank(input, "input")
        for i, state in enumerate(hx if hx is not None else ()):
            self._check_rank(state, f"hx[{i}]")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            shape = (input.size(0), self.hidden_size)
            zeros = ops.zeros(shape, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        h, c = ops.lstm_cell(input, hx, *weights)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU: h to h' = (1 − z)·n + z·h.

    >>> import ember as torch
    >>> torch.nn.GRUCell(2, 3)(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        return self._step(ops.gru_cell, input, hx)


__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]
