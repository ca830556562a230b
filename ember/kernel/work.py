"""What a call costs: operations, and bytes that pass through memory."""

from __future__ import annotations

from typing import Any

from ember.kernel.call import LibraryCall


def specs_in(tree: Any) -> list[Any]:
    """The specs among a call's operands."""
    if hasattr(tree, "nbytes"):
        return [tree]
    return [s for t in tree for s in specs_in(t)] if isinstance(tree, (tuple, list)) else []


def bytes_of(call: Any) -> float:
    """The bytes of a call's operands and results."""
    return float(sum(s.nbytes for s in (*specs_in(call.in_specs), *call.out_specs)))


def operations_of(call: Any) -> float:
    """Operations of the products that dominate, 2 for a multiplication with its addition; the rest
    is bound by its bytes, and counts none."""
    inputs: list[Any] = specs_in(call.in_specs)
    outputs: list[Any] = list(call.out_specs)
    if not (isinstance(call, LibraryCall) and outputs and inputs):
        return 0.0
    kernel, first, made = str(call.kernel), inputs[0], outputs[0]
    if kernel in ("matmul", "linear"):
        return float(2 * made.numel * first.shape[-1])
    if kernel == "linear_backward":  # of a gradient, an input and a weight; for those two
        wanted = sum(s.numel > 0 for s in outputs[:2])
        return float(2 * wanted * first.numel * inputs[2].shape[-1])
    if kernel == "convolution" and len(inputs) > 1:
        return float(2 * made.numel * inputs[1].numel / max(inputs[1].shape[0], 1))
    if kernel.startswith("convolution") and len(inputs) > 1:
        # Gradients cost what the forward did: the weight's gradient is among operands or result.
        sizes = sorted(s.numel for s in (*inputs[:2], made))
        return float(2 * sizes[0] * sizes[-1] / max(made.shape[0], first.shape[0], 1))
    if "attention" in kernel and len(inputs) >= 3 and first.ndim >= 2:
        length = inputs[1].shape[-2]
        times = 4.0 if "backward" not in kernel else 10.0
        return float(times * first.numel * length)
    return 0.0
