"""What is left out says so; what is an identity in eager PyTorch is one here."""

import pytest

import ember as torch
from ember import nn


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: torch.onnx.export(nn.ReLU(), torch.ones(1), "x.onnx"), "does not write ONNX"),
        (lambda: torch.export.export(nn.ReLU(), (torch.ones(1),)), "not exported yet"),
        (lambda: torch.export.save(None, "x"), "not exported yet"),
        (lambda: torch.export.load("x"), "not exported yet"),
        (lambda: torch.ao.quantization.prepare(nn.ReLU()), "quantization is left out"),
        (lambda: torch.quantization.quantize_dynamic(nn.ReLU()), "quantization is left out"),
        (lambda: torch.jit.CompilationUnit("def f(x): return x"), "not compiled here"),
    ],
)
def test_left_out(call, text):
    with pytest.raises(NotImplementedError, match=text):
        call()


def test_questions_are_answered():
    assert torch.onnx.is_in_onnx_export() is False
    assert torch.export.Dim("n", min=2).min == 2
    assert repr(torch.export.Dim.AUTO) == "DimHint(AUTO)"


def test_quantization_stubs_are_identities():
    x = torch.tensor([1.0, -2.0])
    assert torch.ao.quantization.QuantStub()(x) is x
    assert torch.ao.quantization.DeQuantStub()(x) is x
    wrapped = torch.quantization.QuantWrapper(nn.ReLU())
    assert wrapped(x).tolist() == [1.0, 0.0]
    functional = nn.quantized.FloatFunctional()
    assert functional.add(x, x).tolist() == [2.0, -4.0]
    assert functional.cat([x, x]).shape == (4,) and functional.mul_scalar(x, 2.0)[0] == 2.0
    assert functional.add_relu(x, x).tolist() == [2.0, 0.0]


def test_missing_names_say_what_is_left_out():
    with pytest.raises(AttributeError, match="quantize_per_tensor.*quantization is left out"):
        torch.quantize_per_tensor


def test_no_program_is_captured_on_stand_ins():
    assert torch._guards.active_fake_mode() is None
    assert torch._guards.detect_fake_mode([torch.ones(1)]) is None
