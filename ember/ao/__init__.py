"""`torch.ao`: of quantization, what is an identity before anything is quantized."""

from ember.ao import quantization

__all__ = ["quantization"]
