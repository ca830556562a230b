"""The modules that mark where a model would be quantized; quantizing itself is left out."""

from __future__ import annotations

from typing import Any, NamedTuple

from ember import nn

__all__ = [
    "DeQuantStub",
    "FakeQuantizeBase",
    "ObserverBase",
    "QConfig",
    "QuantStub",
    "QuantWrapper",
]


class QuantStub(nn.Module):
    """Where values are quantized once a model is converted; until then the identity.

    >>> import ember as torch
    >>> torch.ao.quantization.QuantStub()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, qconfig: Any = None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """`x`."""
        return x


class DeQuantStub(QuantStub):
    """Where values are made floats again once a model is converted; until then the identity."""


class QuantWrapper(nn.Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """What the module gives."""
        return self.dequant(self.module(self.quant(X)))


class ObserverBase(nn.Module):
    """The base of modules that watch ranges, for isinstance."""


class FakeQuantizeBase(nn.Module):
    """The base of modules that round as if quantized, for isinstance."""


class QConfig(NamedTuple):
    """How to quantize activations and weights."""

    activation: Any
    weight: Any


_LEFT_OUT = frozenset(
    "prepare prepare_qat convert quantize quantize_dynamic quantize_qat fuse_modules "
    "fuse_modules_qat get_default_qconfig get_default_qat_qconfig get_default_qconfig_mapping "
    "get_default_qat_qconfig_mapping propagate_qconfig_ swap_module".split()
)


def _left_out(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"torch.ao.quantization.{name}(): quantization is left out; float16 and bfloat16 "
            "(module.half(), torch.autocast) make models smaller"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "NotImplementedError: quantization is left out."
    return refuse


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:
        found = globals()[name] = _left_out(name)
        return found
    raise AttributeError(f"module 'torch.ao.quantization' has no attribute '{name}'")
