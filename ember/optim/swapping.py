"""Other parameters and state in an optimizer's place, for a while."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim.optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Let an optimizer work on other parameters and another state inside a `with` block.

    `swapin_parameters` are in the order of the optimizer's own, `swapin_optim_state` is shaped as
    `optimizer.state_dict()`. Tensors of both are changed in place; new entries are forgotten at the
    end, when the optimizer gets back its parameters, state and options. RuntimeError for an
    optimizer without state and for other numbers of groups or parameters.

    >>> import ember as torch
    >>> weight, other = torch.nn.Parameter(torch.ones(1)), torch.zeros(1)
    >>> optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    >>> weight.grad, other.grad = torch.ones(1), torch.ones(1)
    >>> optimizer.step()
    >>> swap = torch.optim.swap_in_optimizer_params_and_state
    >>> with swap(optimizer, {"weight": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> weight.item(), round(other.item(), 4)
    (0.5, -0.95)
    """
    check(optimizer.state, RuntimeError, f"{_NAME} requires initialized optimizer state.")
    groups = _checked_groups(optimizer, swapin_optim_state)
    given = list(swapin_parameters.values())
    own = [param for group in optimizer.param_groups for param in group["params"]]
    check(
        len(given) == len(own),
        RuntimeError,
        f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering: "
        f"{len(own)} parameters, not {len(given)}.",
    )
    state, before = optimizer.state, [dict(group) for group in optimizer.param_groups]
    by_id: dict[Any, Tensor] = {}
    try:
        rest = iter(given)
        for group, other in zip(optimizer.param_groups, groups, strict=True):
            params = [next(rest) for _ in group["params"]]
            by_id.update(zip(other["params"], params, strict=False))
            group.update({**other, "params": params})
        optimizer.state = defaultdict(dict)
        for key, values in swapin_optim_state.get("state", {}).items():
            optimizer.state[by_id.get(key, key)] = dict(values)
        yield
    finally:
        optimizer.state = state
        for group, options in zip(optimizer.param_groups, before, strict=True):
            group.clear()
            group.update(options)


def _checked_groups(optimizer: Optimizer, state: dict[str, Any]) -> list[dict[str, Any]]:
    groups = state.get("param_groups")
    check(
        isinstance(groups, list),
        RuntimeError,
        f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, "
        f"got {type(groups).__name__}.",
    )
    assert groups is not None
    check(
        len(groups) == len(optimizer.param_groups),
        RuntimeError,
        "swapin_optim_state has a different number of parameter groups than the live optimizer.",
    )
    return groups
