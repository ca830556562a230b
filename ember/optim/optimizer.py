"""`Optimizer`: parameter groups, state keyed by parameter, checkpoints and hooks; what all
optimizers share."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ember.core.executor import current_executor
from ember.core.hooks import RemovableHandle
from ember.core.modes import enable_grad, no_grad, set_grad_enabled
from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim import checkpoint, recorded

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT = Iterable[Any]  # tensors, dicts of a group's options, or (name, tensor) pairs

_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_HOOKS = (
    "step_pre",
    "step_post",
    "state_dict_pre",
    "state_dict_post",
    "load_state_dict_pre",
    "load_state_dict_post",
)


class _RequiredParameter:
    """The default of an option that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer; returns a handle
    with `remove()`."""
    return _registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer; returns a handle
    with `remove()`."""
    return _registered(_global_optimizer_post_hooks, hook)


def _registered(hooks: Any, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `step` so that it records for backward just when the optimizer is
    `differentiable`."""

    @functools.wraps(step)
    def recorded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with enable_grad() if self.defaults.get("differentiable") else no_grad():
            return step(self, *args, **kwargs)

    return recorded


def _get_value(value: Any) -> Any:
    """A number, read from a one-element tensor where it is one."""
    return value.item() if isinstance(value, Tensor) else value


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach) for options left None. Always (False, False): each update is one kernel
    either way."""
    return False, False


class Optimizer:
    """The base of all optimizers.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dicts that each define a
    group of parameters with options of their own; `defaults` are the options of groups that give
    none. TypeError for what is no tensor, ValueError for an empty list, a tensor that is not a
    leaf, and a parameter that is in two groups.

    >>> import ember as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.5}]
    >>> optimizer = torch.optim.SGD(groups, lr=0.1)
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.1, 0.5]
    """

    # The entries of a parameter's state that are bookkeeping numbers: kept on the CPU,
    # whatever the parameter's device
    _host_state: tuple[str, ...] = ("step",)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {params.type()}; put it in a list"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._param_devices: list[Any] = []
        groups = list(params)
        check(groups, ValueError, "optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in _HOOKS:
            self.__dict__.setdefault(f"_optimizer_{name}_hooks", OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        self._param_devices = self._devices()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # ------------------------------------------------------------------ parameter groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters, with options of their own.

        TypeError and ValueError as for the constructor; a group that is refused leaves the
        optimizer as it was.
        """
        check(
            isinstance(param_group, dict),
            TypeError,
            f"param_group must be a dict, but got {type(param_group)}",
        )
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        group = {**param_group, **checkpoint.split_names(list(params))}
        self._check_params(group["params"])
        self._check_names(group)
        for name, default in self.defaults.items():
            check(
                default is not required or name in group,
                ValueError,
                f"parameter group didn't specify a value of required optimization parameter {name}",
            )
            group.setdefault(name, default)
        self._check_distinct(group["params"])
        param_group.update(group)
        self.param_groups.append(param_group)
        self._param_devices = self._devices()

    def _check_params(self, params: list[Any]) -> None:
        for param in params:
            check(
                isinstance(param, Tensor),
                TypeError,
                lambda param=param: (
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{_type_name(param)}"
                ),
            )
            check(
                self.defaults.get("differentiable") or param.is_leaf or param.retains_grad,
                ValueError,
                "can't optimize a non-leaf Tensor",
            )

    def _check_names(self, group: dict[str, Any]) -> None:
        if not self.param_groups:
            return
        named = "param_names" in group
        check(
            named == ("param_names" in self.param_groups[-1]),
            ValueError,
            "all optimizer param groups should be with/without names. cannot add param group "
            f"{'with' if named else 'without'} names to the optimizer",
        )

    def _check_distinct(self, params: list[Tensor]) -> None:
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=4,
            )
        known = {param for group in self.param_groups for param in group["params"]}
        check(
            known.isdisjoint(params),
            ValueError,
            "some parameters appear in more than one parameter group",
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with `set_to_none=False` fill them with
        zeros in place."""
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                with no_grad():
                    grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; `closure` evaluates the model again and returns the loss,
        which is returned."""
        raise NotImplementedError(f"{type(self).__name__} defines no step()")

    # ------------------------------------------------------------------ steps and devices

    def _patch_step_function(self) -> None:
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        if not getattr(type(self).step, "hooked", None):
            type(self).step = self.profile_hook_step(type(self).step)

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """`func`, a class's `step`, with the hooks around it and the state brought to its
        parameters before it."""

        @functools.wraps(func)
        def hooked_step(*args: Any, **kwargs: Any) -> Any:
            recording = current_executor()
            if recording is not None:  # a replay steps anew: its numbers change
                self, *rest = args
                hooks = (self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks)
                shared = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
                if recorded.is_followed(recording, self, (*hooks, *shared, rest, kwargs)):
                    self._follow_parameters()
                    return recorded.step(recording, self)
                return recording.host_call(lambda: stepped(*args, **kwargs))
            return stepped(*args, **kwargs)

        def stepped(*args: Any, **kwargs: Any) -> Any:
            self, *_ = args
            for hook in (
                *_global_optimizer_pre_hooks.values(),
                *self._optimizer_step_pre_hooks.values(),
            ):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                check(
                    isinstance(result, tuple) and len(result) == 2,
                    RuntimeError,
                    lambda result=result: (
                        f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{result}."
                    ),
                )
                args, kwargs = result
            self._follow_parameters()
            out = func(*args, **kwargs)
            for hook in (
                *self._optimizer_step_post_hooks.values(),
                *_global_optimizer_post_hooks.values(),
            ):
                hook(self, args, kwargs)
            return out

        hooked_step.hooked = True
        return hooked_step

    def _devices(self) -> list[Any]:
        return [param.device for group in self.param_groups for param in group["params"]]

    def _follow_parameters(self) -> None:
        """Move the state of parameters that have changed device since the last step (as
        `module.cuda()` does)."""
        devices = self._devices()
        if devices == self.__dict__.get("_param_devices"):
            return
        for group in self.param_groups:
            on_device = group.get("capturable")
            for param in group["params"]:
                state = self.state.get(param)
                if state:
                    stays = () if on_device else self._host_state
                    self.state[param] = checkpoint.moved(state, param.device, stays)
        self._param_devices = devices

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Any]], with_indices: bool = False
    ) -> dict[Any, tuple[list[list[Any]], list[int]]]:
        """Parallel lists of tensors, split by the device and dtype of the first list's."""
        found: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for index, first in enumerate(tensorlistlist[0]):
            lists, indices = found.setdefault(
                (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
            )
            for target, source in zip(lists, tensorlistlist, strict=True):
                if source:
                    target.append(source[index])
            indices.append(index)
        return found

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args,
        kwargs)."""
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` makes its result."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on what `state_dict` made; it may return another
        dict."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another
        dict to load."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: its state}, "param_groups": [options]}, with parameters as numbers in
        order.

        The tensors are the optimizer's own, not copies.
        """
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        made = checkpoint.packed(self.state, self.param_groups)
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            made = _or(post_hook(self, made), made)
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state from a `state_dict`, cast to the dtypes and devices of the
        parameters.

        ValueError if the groups or their sizes differ from this optimizer's.
        """
        state_dict = state_dict.copy()
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = _or(pre_hook(self, state_dict), state_dict)
        with set_grad_enabled(False):
            self.__setstate__(checkpoint.unpacked(state_dict, self.param_groups))
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)


def _or(result: Any, otherwise: Any) -> Any:
    return otherwise if result is None else result


def _type_name(value: Any) -> str:
    kind = type(value)
    return (
        kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
