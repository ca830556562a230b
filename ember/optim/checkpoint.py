"""An optimizer's state as a dict that can be saved, in PyTorch's format, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ember import dtypes
from ember.core.tensor import Tensor
from ember.errors import check


def split_names(params: list[Any]) -> dict[str, list[Any]]:
    """{"params": tensors} of a list of tensors or (name, tensor) pairs, with "param_names" where
    there are any.

    ValueError if only some have names.
    """
    named = [param for param in params if isinstance(param, tuple)]
    if not named:
        return {"params": params}
    check(
        len(named) == len(params),
        ValueError,
        "all optimizer params should be with/without names. Some param names are missing",
    )
    return {"params": [pair[1] for pair in params], "param_names": [pair[0] for pair in params]}


def packed(state: dict[Any, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """State and groups with each parameter replaced by its number, counted through the groups."""
    numbers: dict[int, int] = {}
    for group in groups:
        for param in group["params"]:
            numbers.setdefault(id(param), len(numbers))

    def pack(group: dict[str, Any]) -> dict[str, Any]:
        options = {key: value for key, value in group.items() if key != "params"}
        return {**options, "params": [numbers[id(param)] for param in group["params"]]}

    return {
        "state": {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in state.items()
        },
        "param_groups": [pack(group) for group in groups],
    }


def unpacked(state_dict: dict[str, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The state and groups that `state_dict` describes for the parameters of `groups`."""
    import copy

    saved_groups = copy.deepcopy(state_dict["param_groups"])
    check(
        len(groups) == len(saved_groups),
        ValueError,
        "loaded state dict has a different number of parameter groups",
    )
    check(
        all(
            len(g["params"]) == len(s["params"]) for g, s in zip(groups, saved_groups, strict=True)
        ),
        ValueError,
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group",
    )
    owners = {
        number: (param, saved)
        for group, saved in zip(groups, saved_groups, strict=True)
        for number, param in zip(saved["params"], group["params"], strict=True)
    }
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in state_dict["state"].items():
        if key in owners:
            param, options = owners[key]
            state[param] = _fitted(value, param, options)
        else:
            state[key] = value
    return {
        "state": state,
        "param_groups": [_renewed(g, s) for g, s in zip(groups, saved_groups, strict=True)],
    }


def _renewed(group: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """The saved options with the parameters (and, if they were not saved, the names) of the
    present group."""
    saved["params"] = group["params"]
    if "param_names" in group:
        saved.setdefault("param_names", group["param_names"])
    return saved


def _fitted(state: Any, param: Tensor, options: dict[str, Any]) -> Any:
    """A parameter's state on its device and in its dtype. Steps stay float32, on the CPU but for
    kernels that count."""

    def fit(key: str | None, value: Tensor) -> Tensor:
        if key == "step":
            if options.get("capturable") or options.get("fused"):
                place = param.device if options.get("capturable") else "cpu"
                return value.to(dtype=dtypes.float32, device=place)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    return _mapped(fit, state)


def moved(state: dict[str, Any], device: Any, stays: tuple[str, ...]) -> Any:
    """A parameter's state with its tensors on `device`, but for the entries named in `stays`."""
    return _mapped(lambda key, value: value if key in stays else value.to(device=device), state)


def _mapped(function: Callable[[str | None, Tensor], Tensor], value: Any, key: Any = None) -> Any:
    if isinstance(value, Tensor):
        return function(key, value)
    if isinstance(value, dict):
        return {name: _mapped(function, entry, name) for name, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_mapped(function, entry) for entry in value)
    return value
