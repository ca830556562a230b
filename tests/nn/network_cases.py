"""Convolutions, pools, recurrent networks and transformers, for recorded and live comparison.

A case is a module, a call of it (m) and inputs a, b, c ...: a shape is filled with waves of a sine,
a list is a tensor of its values. `python tests/nn/network_cases.py` records the values anew; it
needs PyTorch.
"""

import json
import pathlib
import warnings

RECORDED = pathlib.Path(__file__).with_name("network_values.json")

CASES = {
    "Conv1d": ("nn.Conv1d(2, 4, 3, padding=1, groups=2)", "m(a)", [(1, 2, 5)]),
    "Conv2d": ("nn.Conv2d(2, 3, (3, 2), stride=2, bias=False)", "m(a)", [(2, 2, 5, 5)]),
    "Conv2d same": ("nn.Conv2d(1, 2, 2, padding='same', dilation=3)", "m(a)", [(1, 4, 4)]),
    "Conv2d reflect": (
        "nn.Conv2d(1, 2, 3, padding=1, padding_mode='reflect')",
        "m(a)",
        [(1, 1, 3, 4)],
    ),
    "Conv1d circular": (
        "nn.Conv1d(2, 2, 4, padding='same', padding_mode='circular')",
        "m(a)",
        [(1, 2, 5)],
    ),
    "Conv3d": (
        "nn.Conv3d(1, 2, 2, padding=1, padding_mode='replicate')",
        "m(a)",
        [(1, 1, 2, 2, 2)],
    ),
    "ConvTranspose1d": (
        "nn.ConvTranspose1d(2, 2, 3, stride=2, padding=1, output_padding=1)",
        "m(a)",
        [(1, 2, 4)],
    ),
    "ConvTranspose2d": (
        "nn.ConvTranspose2d(2, 2, 3, stride=2, groups=2, dilation=2)",
        "m(a, output_size=(10, 9))",
        [(1, 2, 3, 3)],
    ),
    "ConvTranspose3d": ("nn.ConvTranspose3d(2, 1, 2)", "m(a)", [(2, 2, 2, 2)]),
    "MaxPool1d": ("nn.MaxPool1d(3, 2, 1, return_indices=True)", "m(a)", [(2, 2, 7)]),
    "MaxPool2d": ("nn.MaxPool2d(2, ceil_mode=True)", "m(a)", [(1, 2, 5, 4)]),
    "MaxPool3d": ("nn.MaxPool3d(2, 1)", "m(a)", [(1, 1, 2, 3, 3)]),
    "MaxUnpool2d": ("nn.MaxUnpool2d(2)", "m(a, b)", [(1, 1, 2), [[[1, 6]]]]),
    "AvgPool1d": ("nn.AvgPool1d(2, padding=1, count_include_pad=False)", "m(a)", [(1, 2, 5)]),
    "AvgPool2d": ("nn.AvgPool2d(2, 1, divisor_override=3)", "m(a)", [(1, 2, 3, 3)]),
    "AvgPool3d": ("nn.AvgPool3d(2)", "m(a)", [(1, 1, 2, 4, 2)]),
    "LPPool2d": ("nn.LPPool2d(2, 2)", "m(a.exp())", [(1, 1, 4, 4)]),
    "AdaptiveAvgPool2d": ("nn.AdaptiveAvgPool2d((2, None))", "m(a)", [(1, 2, 3, 3)]),
    "AdaptiveMaxPool1d": ("nn.AdaptiveMaxPool1d(2)", "m(a)", [(1, 2, 5)]),
    "RNN": ("nn.RNN(2, 3, 2, 'relu')", "m(a, b)", [(4, 2, 2), (2, 2, 3)]),
    "RNN one sequence": ("nn.RNN(2, 3, bias=False)", "m(a, b)", [(4, 2), (1, 3)]),
    "GRU": ("nn.GRU(2, 3, bidirectional=True, batch_first=True)", "m(a)", [(2, 4, 2)]),
    "LSTM": (
        "nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)",
        "flat_state(m(a, (b, c)))",
        [(3, 2, 2), (4, 2, 2), (4, 2, 3)],
    ),
    "LSTM packed": (
        "nn.LSTM(2, 2, bidirectional=True)",
        "unpacked(m(pack(a, [2, 4, 1], enforce_sorted=False)))",
        [(4, 3, 2)],
    ),
    "GRU packed": (
        "nn.GRU(2, 2, batch_first=True)",
        "unpacked(m(pack(a, [2, 4, 1], batch_first=True, enforce_sorted=False), b))",
        [(3, 4, 2), (1, 3, 2)],
    ),
    "RNNCell": ("nn.RNNCell(2, 3, nonlinearity='relu')", "m(a, b)", [(2, 2), (2, 3)]),
    "GRUCell": ("nn.GRUCell(2, 3)", "m(a)", [(2,)]),
    "LSTMCell": ("nn.LSTMCell(2, 3, bias=False)", "m(a, (b, c))", [(2, 2), (2, 3), (2, 3)]),
    "MultiheadAttention": (
        "nn.MultiheadAttention(4, 2, batch_first=True)",
        "m(a, a, a, attn_mask=b > 0)",
        [(2, 3, 4), [[0, 1, 1], [0, 0, 1], [0, 0, 0]]],
    ),
    "MultiheadAttention all": (
        "nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=2)",
        "m(a, b, c, key_padding_mask=d > 0, average_attn_weights=False)",
        [(3, 2, 4), (2, 2, 3), (2, 2, 2), [[0, 1], [0, 0]]],
    ),
    "TransformerEncoderLayer": (
        "nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation='gelu')",
        "m(a)",
        [(3, 2, 4)],
    ),
    "TransformerDecoderLayer": (
        "nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, norm_first=True, batch_first=True)",
        "m(a, b, tgt_mask=c > 0)",
        [(2, 2, 4), (2, 3, 4), [[0, 1], [0, 0]]],
    ),
    "TransformerEncoder": (
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0, bias=False), 2)",
        "m(a, src_key_padding_mask=b > 0)",
        [(3, 2, 4), [[0, 0, 1], [0, 0, 0]]],
    ),
    "TransformerEncoder padding": (
        (
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True), 1, "
            "norm=nn.LayerNorm(4)).eval()"
        ),
        "m(a.detach(), src_key_padding_mask=b > 0)",
        [(2, 3, 4), [[0, 0, 1], [0, 1, 1]]],
    ),
    "Transformer": (
        "nn.Transformer(4, 2, 1, 1, 6, dropout=0.0)",
        "m(a, b, tgt_mask=m.generate_square_subsequent_mask(2), tgt_is_causal=True)",
        [(3, 2, 4), (2, 2, 4)],
    ),
}


def wave(torch, shape, phase):
    """A tensor of a shape with values of a sine: the same in every framework."""
    count = 1
    for size in shape:
        count *= size
    steps = torch.arange(count, dtype=torch.float64)
    return (steps * 1.7 + phase).sin().reshape(shape)


def run_case(torch, name, dtype_name="float32"):
    """What a case gives: text, parameter names, shapes, outputs, gradients."""
    build, call, inputs = CASES[name]
    dtype, rnn = getattr(torch, dtype_name), torch.nn.utils.rnn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = eval(build, {"nn": torch.nn}).to(dtype)
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(wave(torch, tuple(parameter.shape), place + 0.5) * 0.5)
    named = {}
    for place, (letter, value) in enumerate(zip("abcd", inputs)):
        if isinstance(value, tuple):
            named[letter] = wave(torch, value, place * 0.9 + 0.2).to(dtype).requires_grad_()
        else:
            named[letter] = torch.tensor(value)
    tools = {
        "pack": rnn.pack_padded_sequence,
        "unpacked": lambda found: flat_state((rnn.pad_packed_sequence(found[0])[0], found[1])),
        "flat_state": flat_state,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "padding" in name:
            with torch.no_grad():
                output = eval(call, {"m": module, **tools, **named})
        else:
            output = eval(call, {"m": module, **tools, **named})
    outputs = output if isinstance(output, tuple) else (output,)
    total = 0
    for place, tensor in enumerate(outputs):
        if tensor.requires_grad:
            weights = wave(torch, tuple(tensor.shape), place + 0.3).to(tensor.dtype)
            total = total + (tensor * weights).sum()
    if not isinstance(total, int):
        total.backward()
    sources = [*(t for t in named.values() if t.requires_grad), *module.parameters()]
    return {
        "repr": repr(module),
        "parameters": {key: list(p.shape) for key, p in module.named_parameters()},
        "shapes": [list(t.shape) for t in outputs],
        "outputs": [flat(t) for t in outputs],
        "gradients": [None if t.grad is None else flat(t.grad) for t in sources],
    }


def flat_state(found):
    """(output, (h, c)) or (output, h) as one tuple."""
    output, state = found
    return (output, *state) if isinstance(state, tuple) else (output, state)


def flat(tensor):
    """All elements as Python numbers, rounded to the digits worth keeping."""
    return [float(f"{float(value):.7g}") for value in tensor.detach().reshape(-1).tolist()]


if __name__ == "__main__":
    import torch

    results = {name: run_case(torch, name, "float64") for name in CASES}
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in results.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
