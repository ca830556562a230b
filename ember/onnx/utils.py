"""The older place of `torch.onnx.export`."""

from ember.onnx import export, is_in_onnx_export

__all__ = ["export", "is_in_onnx_export"]
