"""Copies of a module on other devices whose parameters are copies in the graph: gradients come back
to the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import modes
from ember.nn.parallel.scatter_gather import device_of


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """The network once for each device. The copies hold plain tensors where the original has
    parameters."""
    return [_copy(network, device_of(d), detach, {}) for d in devices]


def _copy(module: Any, device: Any, detach: bool, done: dict[int, Any]) -> Any:
    if id(module) in done:
        return done[id(module)]
    replica = done[id(module)] = object.__new__(type(module))
    replica.__dict__.update(module.__dict__)
    replica.__dict__["_former_parameters"] = {}
    replica.__dict__["_parameters"] = {}
    replica.__dict__["_is_replica"] = True
    for name, parameter in module._parameters.items():
        moved = None if parameter is None else _moved(parameter, device, detach, done)
        replica.__dict__[name] = moved
        replica.__dict__["_former_parameters"][name] = moved
    with modes.no_grad():
        buffers = {
            n: None if b is None else _moved(b, device, True, done)
            for n, b in module._buffers.items()
        }
    replica.__dict__["_buffers"] = buffers
    replica.__dict__["_modules"] = {
        name: None if child is None else _copy(child, device, detach, done)
        for name, child in module._modules.items()
    }
    return replica


def _moved(tensor: Any, device: Any, detach: bool, done: dict[int, Any]) -> Any:
    if id(tensor) not in done:
        done[id(tensor)] = (tensor.detach() if detach else tensor).to(device)
    return done[id(tensor)]
