"""`torch.ao.nn`: the modules of quantized models that work on floats."""

from ember.ao.nn import quantized

__all__ = ["quantized"]
