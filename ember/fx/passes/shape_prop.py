"""`ShapeProp`: runs a graph and notes the shape and dtype of every node."""

from __future__ import annotations

from typing import Any, NamedTuple

from ember.core.tensor import Tensor
from ember.fx.interpreter import Interpreter
from ember.fx.node import Node, map_aggregate
from ember.ops.formats import channels_last, channels_last_3d, contiguous_format

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a node's tensor looks like."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor."""
    formats = (contiguous_format, channels_last, channels_last_3d) if include_contiguity else ()
    ranks = {channels_last: 4, channels_last_3d: 5}
    fits = (f for f in formats if ranks.get(f, result.dim()) == result.dim())
    found = next((f for f in fits if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph module and writes `meta["tensor_meta"]` and `meta["type"]` of its nodes.

    >>> import ember as torch
    >>> from ember import fx
    >>> from ember.fx.passes.shape_prop import ShapeProp
    >>> traced = fx.symbolic_trace(torch.nn.Linear(3, 2))
    >>> _ = ShapeProp(traced).propagate(torch.ones(4, 3))
    >>> [tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes][-1]
    (4, 2)
    """

    def __init__(self, gm: Any, fake_mode: Any = None):
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Run a node, and note what came of it."""
        result = super().run_node(n)
        found = [False]

        def extract(value: Any) -> Any:
            if isinstance(value, Tensor):
                found[0] = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, extract)
        if found[0]:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module on `args`."""
        return super().run(*args)
