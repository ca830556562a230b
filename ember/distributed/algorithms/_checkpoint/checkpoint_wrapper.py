"""`checkpoint_wrapper`: a module that keeps no activations, and computes them again in backward."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ember.nn.modules.module import Module
from ember.utils.checkpoint import checkpoint

_NAME = "_checkpoint_wrapped_module"


class CheckpointImpl(enum.Enum):
    """How `torch.utils.checkpoint` works."""

    REENTRANT = "reentrant"
    NO_REENTRANT = "no_reentrant"


class CheckpointWrapper(Module):
    """A module whose forward is run by `torch.utils.checkpoint`; its state dict is the module's."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.checkpoint_impl, self._function = checkpoint_impl, checkpoint_fn
        self._options = checkpoint_fn_kwargs
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_NAME), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward."""
        if self._function is not None:
            return self._function(self._checkpoint_wrapped_module, *args, **kwargs)
        reentrant = self.checkpoint_impl is CheckpointImpl.REENTRANT
        return checkpoint(
            self._checkpoint_wrapped_module,
            *args,
            use_reentrant=reentrant,
            **self._options,
            **kwargs,
        )

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The module's parameters, under its own names."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_NAME}.", ""), parameter


def _without_prefix(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    start = f"{prefix}{_NAME}."
    for name in [name for name in state if name.startswith(start)]:
        state[prefix + name.removeprefix(start)] = state.pop(name)


def _with_prefix(state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in [name for name in state if name.startswith(prefix)]:
        rest = name.removeprefix(prefix)
        if not rest.startswith(f"{_NAME}."):
            state[f"{prefix}{_NAME}.{rest}"] = state.pop(name)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """A module that keeps no activations."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Put a wrapper around every module inside `model` that `check_fn` takes."""
    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        taken = check_fn(child) if auto_wrap_policy is None else auto_wrap_policy(child, False, -1)
        if taken:
            setattr(model, name, checkpoint_wrapper_fn(child))
