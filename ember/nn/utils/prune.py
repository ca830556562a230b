"""Pruning: parameters with elements or channels held at zero by a mask.

A pruned module keeps the parameter as `NAME_orig` and the mask as the buffer `NAME_mask`; `NAME` is
their product, made anew before each forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.utils.pruning import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    hook_of,
)

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Any, name: str) -> Any:
    """Give the parameter `name` a mask of ones, as if it were pruned; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> list(prune.identity(torch.nn.Linear(1, 1), "bias").state_dict())
    ['weight', 'bias_orig', 'bias_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements of the parameter `name` at random; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> prune.random_unstructured(torch.nn.Linear(4, 1), "weight", 3).weight_mask.sum()
    tensor(1.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the elements of the parameter `name` that are nearest to zero; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> prune.l1_unstructured(torch.nn.Linear(4, 1), "weight", 0.5).weight_mask.sum()
    tensor(2.)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels of the parameter `name` at random; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> prune.random_structured(torch.nn.Linear(4, 2), "weight", 1, dim=1).weight_mask.sum()
    tensor(6.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels of the parameter `name` with the smallest n-norm; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> prune.ln_structured(torch.nn.Linear(4, 2), "weight", 1, n=2, dim=0).weight_mask.sum()
    tensor(4.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune the parameter `name` by a mask; returns the module.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> prune.custom_from_mask(layer, "weight", torch.tensor([[1, 0]])).weight[0, 1].item() == 0
    True
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: Callable[..., Any],
    importance_scores: dict[Any, Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune (module, name) pairs together: elements compete across all of them.

    TypeError for a method that is not unstructured.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> layer = torch.nn.Linear(2, 2)
    >>> pairs = [(layer, "weight"), (layer, "bias")]
    >>> prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=4)
    >>> layer.weight_mask.sum() + layer.bias_mask.sum()
    tensor(2.)
    """
    check(
        isinstance(parameters, Iterable),
        TypeError,
        "global_unstructured(): parameters is not an Iterable",
    )
    check(
        importance_scores is None or isinstance(importance_scores, dict),
        TypeError,
        "global_unstructured(): importance_scores must be of type dict",
    )
    pairs = [(module, name) for module, name in parameters]
    given = importance_scores or {}
    tensors = [getattr(module, name) for module, name in pairs]
    scores = [given.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)]
    masks = [getattr(module, f"{name}_mask", None) for module, name in pairs]
    known = [
        ops.ones_like(tensor) if mask is None else mask
        for mask, tensor in zip(masks, tensors, strict=True)
    ]
    method: Any = pruning_method(**kwargs)
    check(
        method.PRUNING_TYPE == "unstructured",
        TypeError,
        'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
        f"{pruning_method} of type {method.PRUNING_TYPE}",
    )
    method._tensor_name = "temp"
    together = PruningContainer(method)
    mask = together.compute_mask(_flat(scores), _flat(known))
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        part = mask[start : start + tensor.numel()].view_as(tensor)
        custom_from_mask(module, name, mask=part)
        start += tensor.numel()


def _flat(tensors: list[Tensor]) -> Tensor:
    return ops.cat([tensor.reshape(-1) for tensor in tensors])


def remove(module: Any, name: str) -> Any:
    """Make pruning permanent: the parameter `name` is a plain one again, with its zeros. ValueError
    if it is not pruned.

    >>> import ember as torch
    >>> from ember.nn.utils import prune
    >>> layer = prune.identity(torch.nn.Linear(1, 1), "bias")
    >>> list(prune.remove(layer, "bias").state_dict())
    ['weight', 'bias']
    """
    key, hook = hook_of(module, name)
    check(
        hook is not None,
        ValueError,
        lambda: (
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        ),
    )
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module, or of one in it, is pruned.

    >>> import ember as torch
    >>> torch.nn.utils.prune.is_pruned(torch.nn.Linear(1, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
