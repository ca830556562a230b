"""Warnings that PyTorch gives, at the line of the program that earned them."""

import warnings

import pytest

import ember as torch

nn, F = torch.nn, torch.nn.functional
EYE, X, CUBE = torch.eye(3), torch.ones(3, 4), torch.ones(2, 3, 4)
WARNS = {
    "tensor": (lambda: torch.tensor(X), "To copy construct from a tensor.* torch.tensor"),
    "new_tensor": (lambda: X.new_tensor(X), "To copy construct.* tensor.new_tensor"),
    "T of a vector": (lambda: X[0].T, "`x.T` on tensors of dimension other than 2"),
    "T of a cube": (lambda: CUBE.T, "Consider `x.mT` to transpose batches"),
    "T of a number": (lambda: X[0, 0].T, "deprecated on 0-D tensors"),
    "mT of a number": (lambda: X[0, 0].mT, "Tensor.mT is deprecated on 0-D tensors"),
    "mH of a number": (lambda: X[0, 0].mH, "Tensor.mH is deprecated .* x.conj"),
    "H of a number": (lambda: X[0, 0].H, "Tensor.H is deprecated .* x.conj"),
    "frombuffer": (
        lambda: torch.frombuffer(b"abcd", dtype=torch.uint8),
        "The given buffer is not writable",
    ),
    "complex": (lambda: (X + 1j).to(torch.float32), "discards the imaginary part"),
    "complex to float": (lambda: (X + 1j).float(), "discards the imaginary part"),
    "cross": (lambda: torch.cross(EYE, EYE), "torch.cross without specifying the dim"),
    "range": (lambda: torch.range(0, 3), "torch.range is deprecated"),
    "qr": (lambda: torch.qr(EYE), "torch.qr is deprecated in favor of torch.linalg.qr"),
    "cholesky": (lambda: torch.cholesky(EYE), "torch.cholesky is deprecated"),
    "lu": (lambda: torch.lu(EYE), "torch.lu is deprecated in favor of torch.linalg.lu_factor"),
    "chain_matmul": (lambda: torch.chain_matmul(EYE, EYE), "torch.chain_matmul is deprecated"),
    "triangular_solve": (
        lambda: EYE.triangular_solve(EYE),
        "torch.triangular_solve is deprecated",
    ),
    "stft": (
        lambda: torch.stft(torch.ones(64), 16, return_complex=True),
        "A window was not provided",
    ),
    "stft of pairs": (
        lambda: torch.stft(torch.ones(64), 16, window=torch.ones(16), return_complex=False),
        "stft with return_complex=False is deprecated",
    ),
    "istft": (lambda: torch.istft(torch.ones(9, 4) + 0j, 16), "A window was not provided"),
    "same": (
        lambda: F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same"),
        "padding='same' with even kernel lengths",
    ),
    "scatter": (
        lambda: X.scatter(0, torch.tensor([[0]]), X, reduce="add"),
        "reduce argument of torch.scatter with Tensor src is deprecated",
    ),
    "gradcheck": (
        lambda: torch.autograd.gradcheck(
            lambda a: a * 2, torch.ones(2, requires_grad=True), raise_exception=False
        ),
        "Input #0 requires gradient and is not a double precision",
    ),
}
SILENT = {
    "tensor of numbers": lambda: torch.tensor([1.0]),
    "as_tensor": lambda: torch.as_tensor(X),
    "T": lambda: X.T,
    "frombuffer": lambda: torch.frombuffer(bytearray(4), dtype=torch.uint8),
    "complex to bool": lambda: (X + 1j).bool(),
    "real": lambda: (X + 1j).real,
    "cross": lambda: torch.cross(EYE, EYE, dim=0),
    "linalg": lambda: (torch.linalg.qr(EYE), torch.linalg.cholesky(EYE), torch.linalg.lu(EYE)),
    "scatter of a number": lambda: X.scatter(0, torch.tensor([[0]]), 1.0, reduce="add"),
    "same": lambda: F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3), padding="same"),
    "complex gradient": lambda: (
        (X.clone().requires_grad_() * torch.tensor(1j)).abs().sum().backward()
    ),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), 1),
}


@pytest.mark.parametrize("name", WARNS)
def test_a_warning_at_the_line(name):
    run, text = WARNS[name]
    with pytest.warns(UserWarning, match=f"(?s){text}") as found:
        run()
    assert found[0].filename == __file__


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_new_tensor_of_a_tensor_has_the_dtype_of_the_old():
    made = X.new_tensor(torch.tensor([1]), requires_grad=True)
    assert made.dtype is torch.float32 and made.requires_grad
    assert torch.tensor(torch.tensor([1])).dtype is torch.int64
    with pytest.raises(TypeError):
        X.new_tensor(torch.tensor([1]), shape=(1,))


@pytest.mark.parametrize("name", SILENT)
def test_no_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SILENT[name]()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "batch_first was not True"),
        ({"batch_first": True, "norm_first": True}, "norm_first was True"),
        ({"batch_first": True, "bias": False}, "was passed bias=False"),
        ({"batch_first": True, "activation": torch.tanh}, "activation_relu_or_gelu was not True"),
    ],
)
def test_why_an_encoder_keeps_padded_places(options, reason):
    layer = nn.TransformerEncoderLayer(4, 2, **options)
    with pytest.warns(UserWarning, match=f"use_nested_tensor is False because.*{reason}"):
        nn.TransformerEncoder(layer, 1)
    nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    odd = nn.TransformerEncoderLayer(3, 3, batch_first=True)
    with pytest.warns(UserWarning, match="num_heads is odd"):
        nn.TransformerEncoder(odd, 1)
