"""`torch.ao`: of quantization, what is an identity before anything is quantized."""

from ember.ao import nn, quantization

__all__ = ["nn", "quantization"]
