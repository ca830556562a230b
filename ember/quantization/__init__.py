"""The older name of `torch.ao.quantization`."""

from typing import Any

from ember.ao import quantization as _quantization
from ember.ao.quantization import (
    DeQuantStub,
    FakeQuantizeBase,
    ObserverBase,
    QConfig,
    QuantStub,
    QuantWrapper,
)

__all__ = [
    "DeQuantStub",
    "FakeQuantizeBase",
    "ObserverBase",
    "QConfig",
    "QuantStub",
    "QuantWrapper",
]


def __getattr__(name: str) -> Any:
    return getattr(_quantization, name)
