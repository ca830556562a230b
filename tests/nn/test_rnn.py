"""Recurrent modules: weights, states, packed sequences, errors."""

import copy
import pickle

import pytest

import ember as torch
from ember import nn
from ember.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def test_first_weights_are_pytorch_s():
    torch.manual_seed(0)
    lstm = nn.LSTM(1, 1)
    assert lstm.weight_ih_l0.flatten().tolist() == pytest.approx(
        [-0.0075, 0.5364, -0.8230, -0.7359], abs=1e-4
    )
    assert lstm.bias_hh_l0.shape == (4,)


def test_names_of_parameters():
    lstm = nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    names = [f"{k}_l{n}{s}" for n in (0, 1) for s in ("", "_reverse") for k in kinds]
    assert list(lstm.state_dict()) == names == lstm._flat_weights_names
    assert [p is getattr(lstm, n) for p, n in zip(lstm.parameters(), names)] == [True] * 20
    assert len(lstm.all_weights) == 4 and lstm.all_weights[0][0] is lstm.weight_ih_l0
    assert lstm.flatten_parameters() is None


def test_text():
    assert repr(nn.LSTM(2, 3, 2, dropout=0.5, proj_size=2, batch_first=True, bias=False)) == (
        "LSTM(2, 3, proj_size=2, num_layers=2, bias=False, batch_first=True, dropout=0.5)"
    )
    assert repr(nn.RNNCell(2, 3, nonlinearity="relu")) == "RNNCell(2, 3, nonlinearity=relu)"


X = torch.ones(4, 1, 2)
LSTM, RNN, GRU = nn.LSTM(2, 3), nn.RNN(2, 3), nn.GRU(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTM(2, 3, dropout=2), ValueError, "dropout should be a number in range"),
        (lambda: nn.LSTM(2.0, 3), TypeError, "input_size should be of type int, got: float"),
        (lambda: nn.LSTM(2, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(2, 3, bias=1), TypeError, "bias should be of type bool, got: int"),
        (lambda: nn.LSTM(2, 3, proj_size=3), ValueError, "proj_size has to be smaller than hidden"),
        (lambda: nn.GRU(2, 3, proj_size=1), ValueError, "only supported for LSTM, not RNN or GRU"),
        (lambda: nn.RNN(2, 3, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'. Select"),
        (lambda: nn.RNNBase("x", 2, 3), ValueError, "Unrecognized RNN mode: x"),
        (lambda: LSTM(X[0, 0]), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        (lambda: RNN(X[0, 0]), ValueError, "got 1D tensor instead"),
        (
            lambda: GRU(torch.ones(4, 1, 3)),
            RuntimeError,
            r"input.size\(-1\) must be equal to input_size. Expected 2, got 3",
        ),
        (
            lambda: GRU(X, torch.ones(1, 2, 3)),
            RuntimeError,
            r"Expected hidden size \(1, 1, 3\), got \[1, 2, 3\]",
        ),
        (
            lambda: LSTM(X, (torch.ones(1, 1, 3), torch.ones(1, 2, 3))),
            RuntimeError,
            r"Expected hidden\[1\] size \(1, 1, 3\), got \[1, 2, 3\]",
        ),
        (
            lambda: GRU(X, torch.ones(1, 3)),
            RuntimeError,
            "For batched 3-D input, hx should also be 3-D but got 2-D tensor",
        ),
        (
            lambda: LSTM(X[:, 0], (torch.ones(1, 3), torch.ones(1, 1, 3))),
            RuntimeError,
            r"For unbatched 2-D input, hx and cx should also be 2-D but got \(2-D, 3-D\) tensors",
        ),
        (
            lambda: RNN(X.double()),
            ValueError,
            r"RNN input dtype \(torch.float64\) does not match weight dtype \(torch.float32\)",
        ),
        (lambda: RNN(X[:0]), RuntimeError, "Expected sequence length to be larger than 0 in RNN"),
        (
            lambda: nn.LSTMCell(2, 3)(torch.ones(1, 1, 2)),
            ValueError,
            "LSTMCell: Expected input to be 1D or 2D, got 3D instead",
        ),
        (
            lambda: nn.GRUCell(2, 3)(torch.ones(1, 2), torch.ones(1, 1, 3)),
            ValueError,
            "GRUCell: Expected hidden to be 1D or 2D, got 3D instead",
        ),
        (
            lambda: nn.RNNCell(2, 3, nonlinearity="x")(torch.ones(1, 2)),
            RuntimeError,
            "Unknown nonlinearity: x",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_dropout_of_one_layer_is_warned_of():
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        nn.GRU(2, 3, dropout=0.5)


def test_batch_first_only_moves_dims():
    torch.manual_seed(0)
    first, second = nn.GRU(2, 3), nn.GRU(2, 3, batch_first=True)
    second.load_state_dict(first.state_dict())
    x = torch.randn(4, 2, 2)
    output, hidden = first(x)
    turned, same = second(x.transpose(0, 1))
    assert turned.transpose(0, 1).tolist() == output.tolist() and same.tolist() == hidden.tolist()


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_packed_sequences_run_as_if_alone(kind):
    torch.manual_seed(0)
    network = kind(2, 3, num_layers=2, bidirectional=True)
    x, lengths = torch.randn(5, 3, 2), [2, 5, 3]
    output, state = network(pack_padded_sequence(x, lengths, enforce_sorted=False))
    padded, found = pad_packed_sequence(output)
    assert found.tolist() == lengths
    states = state if kind is nn.LSTM else (state,)
    for n, length in enumerate(lengths):
        own, last = network(x[:length, n])
        assert_near(padded[:length, n], own)
        assert padded[length:, n].abs().sum().item() == 0
        for mine, theirs in zip(states, last if kind is nn.LSTM else (last,)):
            assert_near(mine[:, n], theirs)


def assert_near(mine, theirs):
    assert mine.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), abs=1e-6)


def test_copies_pickles_and_moves_keep_working():
    gru = nn.GRU(2, 3)
    output = gru(X)[0]
    for again in (copy.deepcopy(gru), pickle.loads(pickle.dumps(gru))):
        assert again(X)[0].tolist() == output.tolist()
    gru.weight_ih_l0 = nn.Parameter(torch.zeros(9, 2))
    assert gru(X)[0].tolist() != output.tolist()
    assert gru.double()(X.double())[0].dtype == torch.float64
