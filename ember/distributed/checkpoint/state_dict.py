"""State dicts of models and their optimizers by the names of parameters, with or without
DistributedDataParallel around the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ember.core.tensor import Tensor
from ember.distributed.world import get_rank, is_initialized, resolved
from ember.errors import check
from ember.pytree import tree_map

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """What is wanted of a state dict: on the CPU, without frozen parameters, loaded strictly, given
    by rank 0 to all."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _names(model: Any) -> dict[int, str]:
    """The names of a model's parameters by their identity."""
    return {id(p): _stripped(model, name) for name, p in model.named_parameters()}


def _stripped(model: Any, name: str) -> str:
    wrapped = type(model).__name__ == "DistributedDataParallel"
    return name.removeprefix("module.") if wrapped else name


def _offloaded(state: Any, options: StateDictOptions) -> Any:
    if not options.cpu_offload:
        return state
    if options.full_state_dict and is_initialized() and get_rank() != 0:
        return {}
    return tree_map(lambda v: v.cpu() if isinstance(v, Tensor) else v, state)


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's state dict, with the names that it has without a wrapper."""
    check(not submodules, NotImplementedError, "get_model_state_dict: submodules= is not there")
    found = options or StateDictOptions()
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    state = {
        _stripped(model, name): value
        for name, value in model.state_dict().items()
        if not (found.ignore_frozen_params and name in frozen)
    }
    return _offloaded(state, found)  # type: ignore[no-any-return]


def set_model_state_dict(
    model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a state dict; with `broadcast_from_rank0`, the one of rank 0 everywhere."""
    found = options or StateDictOptions()
    target = model.module if type(model).__name__ == "DistributedDataParallel" else model
    if not found.broadcast_from_rank0 or not is_initialized():
        return target.load_state_dict(model_state_dict, strict=found.strict)
    keys = None
    if get_rank() == 0:
        keys = target.load_state_dict(model_state_dict, strict=found.strict)
    tensors = [v.detach() for v in target.state_dict().values() if isinstance(v, Tensor)]
    resolved(None).broadcast(tensors, 0)
    return keys


def get_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The optimizers' state, with parameters named instead of numbered."""
    check(not submodules, NotImplementedError, "get_optimizer_state_dict: submodules= is not there")
    names, state, groups = _names(model), {}, []
    for optimizer in _listed(optimizers):
        for group in optimizer.param_groups:
            groups.append({**group, "params": [names[id(p)] for p in group["params"]]})
        for parameter, values in optimizer.state.items():
            state[names[id(parameter)]] = dict(values)
    found = {"state": state, "param_groups": groups}
    return _offloaded(found, options or StateDictOptions())  # type: ignore[no-any-return]


def _listed(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def set_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what get_optimizer_state_dict gave."""
    names, given = _names(model), list(optim_state_dict["param_groups"])
    for optimizer in _listed(optimizers):
        count = len(optimizer.param_groups)
        groups, given = given[:count], given[count:]
        numbers: dict[str, int] = {}
        loaded = []
        for group, found in zip(optimizer.param_groups, groups, strict=True):
            own = [names[id(parameter)] for parameter in group["params"]]
            check(
                set(own) == set(found["params"]),
                ValueError,
                f"the optimizer has the parameters {own}, and the state {found['params']}",
            )
            first = len(numbers)
            numbers |= {name: first + place for place, name in enumerate(own)}
            loaded.append({**found, "params": [numbers[name] for name in own]})
        known = optim_state_dict["state"]
        state = {number: known[name] for name, number in numbers.items() if name in known}
        optimizer.load_state_dict({"state": state, "param_groups": loaded})


def get_state_dict(
    model: Any,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of a model and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the state dicts of a model and of its optimizers."""
    keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys
