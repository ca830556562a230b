"""Modules as functions of their parameters: the older way than `functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ember.errors import check
from ember.func.modules import functional_call
from ember.nn.modules.module import Module
from ember.ops.joining import stack

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


def _copied(model: Module, untracked: bool) -> tuple[Module, tuple[str, ...], tuple[Any, ...]]:
    made = copy.deepcopy(model)
    named = dict(made.named_parameters())
    if untracked:
        for parameter in named.values():
            parameter.requires_grad_(False)
    return made, tuple(named), tuple(named.values())


class FunctionalModule(Module):
    """A module without parameters of its own: they are the first argument, a tuple.

    >>> import ember as torch
    >>> from ember._functorch.make_functional import make_functional
    >>> function, parameters = make_functional(torch.nn.Linear(2, 1))
    >>> function([torch.ones(1, 2), torch.zeros(1)], torch.tensor([[1.0, 2.0]]))
    tensor([[3.]])
    """

    def __init__(
        self, stateless_model: Module, param_names: tuple[str, ...], names_map: Any = None
    ):
        super().__init__()
        self.stateless_model, self.param_names = stateless_model, param_names
        self.names_map = names_map or {name: [name] for name in param_names}

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModule, tuple[Any, ...]]:
        made, names, params = _copied(model, disable_autograd_tracking)
        return FunctionalModule(made, names), params

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """The module's result with these parameters."""
        given = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """The same with buffers as the second argument."""

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: Any = None,
        buffer_names_map: Any = None,
    ):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names
        self.all_names_map = {name: [name] for name in (*param_names, *buffer_names)}
        self.all_names_map |= {**(param_names_map or {}), **(buffer_names_map or {})}

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
        made, names, params = _copied(model, disable_autograd_tracking)
        buffers = dict(made.named_buffers())
        return (
            FunctionalModuleWithBuffers(made, names, tuple(buffers)),
            params,
            tuple(buffers.values()),
        )

    def forward(
        self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The module's result with these parameters and buffers."""
        given = dict(zip(self.param_names, params, strict=True))
        given.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """The function of a module, and copies of its parameters. RuntimeError for one with buffers."""
    check(
        not list(model.buffers()),
        RuntimeError,
        "make_functional(model): `model` has buffers. Please use "
        "make_functional_with_buffers(model) instead.",
    )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """The function of a module, and copies of its parameters and buffers."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """The function of modules of one class, with their parameters and buffers stacked."""
    check(
        len(models) > 0,
        RuntimeError,
        "combine_state_for_ensemble: Expected at least one model, got 0.",
    )
    same = all(m.training == models[0].training for m in models)
    check(
        same,
        RuntimeError,
        "combine_state_for_ensemble: Expected all models to have the same training/eval mode.",
    )
    check(
        all(type(m) is type(models[0]) for m in models),
        RuntimeError,
        "combine_state_for_ensemble: Expected all models to be of the same class.",
    )
    made = [make_functional_with_buffers(m) for m in models]
    params = tuple(stack(list(p)).detach() for p in zip(*(m[1] for m in made), strict=True))
    buffers = tuple(stack(list(b)).detach() for b in zip(*(m[2] for m in made), strict=True))
    return made[0][0], params, buffers
