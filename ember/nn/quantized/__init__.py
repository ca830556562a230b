"""`torch.nn.quantized`: of it, the module that stands for additions where a model would be
quantized."""

from ember.nn.quantized.functional_modules import FloatFunctional

__all__ = ["FloatFunctional"]
