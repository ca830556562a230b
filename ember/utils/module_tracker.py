"""`torch.utils.module_tracker`: which modules the program is inside of, forward and backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ember.autograd.graph import register_multi_grad_hook
from ember.core import engine, modes
from ember.core.tensor import Tensor
from ember.nn.modules.module_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ember.pytree import tree_leaves


class ModuleTracker:
    """A block in which `parents` is the set of names of the modules that run, with "Global".

    The first module called names the rest: "Net", "Net.layer". In the backward pass `is_bw` is
    true, and the modules are those whose gradients are computed.

    >>> import ember as torch
    >>> from ember.utils.module_tracker import ModuleTracker
    >>> with ModuleTracker() as tracker:
    ...     handle = torch.nn.ReLU().register_forward_pre_hook(
    ...         lambda module, args: print(sorted(tracker.parents))
    ...     )
    """

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._stack: list[str] = []
        self._behind: tuple[int, set[str]] = 0, set()  # a backward pass, and the modules it is in
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether gradients are being computed."""
        return engine.pass_number() != 0

    @property
    def parents(self) -> set[str]:
        """The names of the modules that the program is inside of."""
        if not self.is_bw:
            return {"Global", *self._stack}
        return {"Global", *self._reached()}

    def _reached(self) -> set[str]:
        """The modules that the running backward pass is inside of."""
        if self._behind[0] != engine.pass_number():
            self._behind = engine.pass_number(), set()
        return self._behind[1]

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _name(self, module: Any) -> str:
        if module not in self._names:
            own = type(module).__name__
            for name, inner in module.named_modules():
                self._names.setdefault(inner, f"{own}.{name}" if name else own)
        return self._names[module]

    def _enter(self, module: Any, args: Any) -> None:
        name = self._name(module)
        self._stack.append(name)
        self._watch(args, "all", lambda: self._reached().discard(name))

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        name = self._name(module)
        if self._stack and self._stack[-1] == name:
            self._stack.pop()
        self._watch(output, "any", lambda: self._reached().add(name))

    def _watch(self, values: Any, mode: Any, reach: Callable[[], None]) -> None:
        """Call `reach()` in backward, once gradients of these tensors are known."""
        tensors = [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]
        if not modes.state.grad or not tensors:
            return
        self._handles.append(register_multi_grad_hook(tensors, lambda _: reach(), mode=mode))
