"""What a call costs: operations, and bytes that pass through memory."""

from __future__ import annotations

from typing import Any

from ember.kernel.call import LibraryCall


def _specs(tree: Any) -> list[Any]:
    if hasattr(tree, "nbytes"):
        return [tree]
    return [s for t in tree for s in _specs(t)] if isinstance(tree, (tuple, list)) else []


def work_of(call: Any) -> tuple[float, float, bool]:
    """(operations, bytes, whether in half precision) of a call. Operations are counted for the
    products that dominate, 2 for a multiplication with its addition; the rest is bound by its
    bytes."""
    inputs, outputs = _specs(call.in_specs), list(call.out_specs)
    moved = float(sum(s.nbytes for s in (*inputs, *outputs)))
    half = any(s.dtype.is_floating_point and s.dtype.itemsize == 2 for s in outputs)
    if not (isinstance(call, LibraryCall) and outputs and inputs):
        return 0.0, moved, half
    return _operations(call.kernel, inputs, outputs), moved, half


def _operations(kernel: str, inputs: list[Any], outputs: list[Any]) -> float:
    first, made = inputs[0], outputs[0]
    if kernel == "matmul":
        return 2.0 * made.numel * first.shape[-1]
    if kernel == "convolution" and len(inputs) > 1:
        return 2.0 * made.numel * inputs[1].numel / max(inputs[1].shape[0], 1)
    if kernel.startswith("convolution") and len(inputs) > 1:
        # Gradients cost what the forward did: the weight's gradient is among operands or result.
        sizes = sorted(s.numel for s in (*inputs[:2], made))
        return 2.0 * sizes[0] * sizes[-1] / max(made.shape[0], first.shape[0], 1)
    if "attention" in kernel and len(inputs) >= 3 and first.ndim >= 2:
        length = inputs[1].shape[-2]
        times = 4.0 if "backward" not in kernel else 10.0
        return times * first.numel * length
    return 0.0


__all__ = ["work_of"]
