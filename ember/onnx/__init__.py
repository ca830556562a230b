"""`torch.onnx`: ONNX files are not written; the names are here for programs that ask."""

from __future__ import annotations

from typing import Any

__all__ = ["ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export"]


class OnnxExporterError(RuntimeError):
    """An export that failed."""


class ONNXProgram:
    """An exported program; none is made here."""


def is_in_onnx_export() -> bool:
    """Whether an export is running: never here.

    >>> import ember as torch
    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False


def export(*args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: ONNX files are not written."""
    raise NotImplementedError(
        "torch.onnx.export(): Ember does not write ONNX files; save the state_dict with torch.save "
        "and export the model with PyTorch, which reads that file"
    )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, custom_opsets: Any = None
) -> None:
    """Say how an export writes an op; as there is no export, nothing uses it."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Undo `register_custom_op_symbolic`."""
