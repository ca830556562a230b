"""`fuse`: batch normalizations folded into the convolutions before them, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ember import nn
from ember.fx._symbolic_trace import symbolic_trace
from ember.fx.graph_module import GraphModule
from ember.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse", "remove_dropout"]

FUSED = {
    (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn_eval,
    (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
    (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn_eval,
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
}


def _set(module: Any, target: str, value: Any) -> None:
    path, _, name = target.rpartition(".")
    setattr(module.get_submodule(path), name, value)


def fuse(model: Any, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """The model with each convolution (or linear layer) and the batch normalization that alone
    follows it made one layer, whose results in evaluation are the same.

    >>> import ember as torch
    >>> from ember.fx.experimental.optimization import fuse
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    >>> [node.op for node in fuse(net).graph.nodes]
    ['placeholder', 'call_module', 'output']
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.op == "call_module" and node.args else None
        if getattr(source, "op", "") != "call_module" or len(source.users) > 1:
            continue
        first, second = modules[source.target], modules[node.target]
        fused = FUSED.get((type(first), type(second)))
        if fused is None or not second.track_running_stats:
            continue
        made = modules[source.target] = fused(first, second)
        _set(traced, source.target, made)
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def remove_dropout(model: Any) -> GraphModule:
    """The model without its dropout layers."""
    traced = symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], nn.Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced
