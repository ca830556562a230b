"""Other names of `torch.nn.quantized`."""

from ember.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]
