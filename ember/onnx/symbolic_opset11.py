"""How an export of opset 11 writes some ops: NotImplementedError, as ONNX files are not written."""

from __future__ import annotations

from typing import Any


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(f"torch.onnx.symbolic_opset11.{name}(): Ember writes no ONNX files")


def select(*args: Any) -> Any:
    """NotImplementedError: ONNX files are not written."""
    raise _refused("select")


def unsqueeze(*args: Any) -> Any:
    """NotImplementedError: ONNX files are not written."""
    raise _refused("unsqueeze")
