"""Attention and transformer modules: structure, masks, errors."""

import copy
import pickle

import pytest

import ember as torch
from ember import nn
from ember.nn.attention import SDPBackend, sdpa_kernel
from ember.nn.grad import conv2d_input, conv2d_weight

X = torch.ones(3, 2, 4)


def test_parameters_of_attention():
    same = nn.MultiheadAttention(4, 2)
    assert list(same.state_dict()) == [
        "in_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "out_proj.bias",
    ]
    apart = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True, bias=False)
    shapes = {name: list(p.shape) for name, p in apart.named_parameters()}
    assert shapes == {
        "q_proj_weight": [4, 4],
        "k_proj_weight": [4, 3],
        "v_proj_weight": [4, 5],
        "bias_k": [1, 1, 4],
        "bias_v": [1, 1, 4],
        "out_proj.weight": [4, 4],
    }
    assert same.out_proj.bias.tolist() == [0] * 4 and same.bias_k is None


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.MultiheadAttention(0, 1),
            ValueError,
            "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=1",
        ),
        (lambda: nn.MultiheadAttention(3, 2), AssertionError, "divisible by num_heads"),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, activation="x"),
            RuntimeError,
            "activation should be relu/gelu, not x",
        ),
        (
            lambda: nn.Transformer(4, 2, 1, 1, 8)(X, torch.ones(3, 1, 4)),
            RuntimeError,
            "the batch number of src and tgt must be equal",
        ),
        (
            lambda: nn.Transformer(4, 2, 1, 1, 8)(X, torch.ones(3, 2, 3)),
            RuntimeError,
            "the feature number of src and tgt must be equal to d_model",
        ),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, 8)(X, is_causal=True),
            RuntimeError,
            "Need attn_mask if specifying the is_causal hint",
        ),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, 8)(X, torch.zeros(3, 3).long()),
            AssertionError,
            "only bool and floating types of src_mask are supported",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_batch_first_and_unbatched_agree():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2)
    turned = copy.deepcopy(attention)
    turned.batch_first = True
    x = torch.randn(3, 2, 4)
    output, weights = attention(x, x, x)
    again, same = turned(*[x.transpose(0, 1)] * 3)
    alone, own = attention(x[:, 1], x[:, 1], x[:, 1])
    assert output.transpose(0, 1).flatten().tolist() == pytest.approx(again.flatten().tolist())
    assert weights.flatten().tolist() == pytest.approx(same.flatten().tolist())
    assert output[:, 1].flatten().tolist() == pytest.approx(alone.flatten().tolist(), abs=1e-6)
    assert own.shape == (3, 3)


def test_the_causal_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [
        [0, -float("inf"), -float("inf")],
        [0, 0, -float("inf")],
        [0, 0, 0],
    ]
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    x = torch.randn(3, 2, 4)
    hinted, read = layer(x, mask, is_causal=True), layer(x, mask)
    assert hinted.flatten().tolist() == pytest.approx(read.flatten().tolist(), abs=1e-6)
    assert layer(x[:2], mask[:2, :2])[0].flatten().tolist() == pytest.approx(
        read[0].flatten().tolist(), abs=1e-6
    )


def test_layers_are_copies():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    first, second = encoder.layers
    assert first.linear1.weight is not second.linear1.weight
    assert first.linear1.weight.tolist() == second.linear1.weight.tolist()
    assert first.activation is layer.activation


def test_own_encoder_and_activation():
    model = nn.Transformer(4, 2, 1, 1, 8, activation=torch.tanh, custom_encoder=nn.Identity())
    assert isinstance(model.encoder, nn.Identity)
    assert model.decoder.layers[0].activation is torch.tanh


def test_activations_are_copied_and_pickled_by_name():
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=torch.tanh).eval()
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again.activation is torch.tanh
        assert again(X).tolist() == layer(X).tolist()
    for function in (nn.functional.relu, nn.functional.gelu, nn.functional.softmax, torch.softmax):
        assert pickle.loads(pickle.dumps(function)) is function is copy.deepcopy(function)


def test_padded_places_are_zero_in_evaluation_only():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
    encoder.eval()
    padding = torch.tensor([[False, False, True], [False, False, False]])
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        assert encoder(x, src_key_padding_mask=padding)[0, 2].tolist() == [0] * 4
        scattered = encoder(x, src_key_padding_mask=padding.flip(1))
    assert scattered.abs().sum(-1).min().item() > 0
    assert encoder(x, src_key_padding_mask=padding)[0, 2].abs().sum().item() > 0


def test_choosing_a_backend_changes_nothing():
    q = torch.ones(1, 2, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        found = nn.functional.scaled_dot_product_attention(q, q, q)
    assert found.tolist() == q.tolist()
    with (
        pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"),
        sdpa_kernel("x"),
    ):
        pass


def test_gradients_of_convolutions_as_functions():
    x, w, g = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
    assert conv2d_input(x.shape, w, g).tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]
    assert conv2d_weight(x, w.shape, g).tolist() == [[[[4, 4], [4, 4]]]]
