"""The keys by which PyTorch finds an op's kernel: of use to exclude autocast, or gradients, in a
block."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from ember.core import modes
from ember.errors import check

__all__ = ["DispatchKey", "DispatchKeySet"]

DispatchKey = Enum(
    "DispatchKey",
    "CPU CUDA MPS Meta XPU AutogradCPU AutogradCUDA AutogradMeta AutogradOther Autograd "
    "AutocastCPU AutocastCUDA AutocastMPS AutocastXPU ADInplaceOrView BackendSelect "
    "CompositeImplicitAutograd CompositeExplicitAutograd Functionalize PythonDispatcher Python "
    "PythonTLSSnapshot FuncTorchBatched FuncTorchGradWrapper Undefined".split(),
)


class DispatchKeySet:
    """A set of dispatch keys.

    >>> from ember._C import DispatchKey, DispatchKeySet
    >>> (DispatchKeySet(DispatchKey.CPU) | DispatchKeySet(DispatchKey.CUDA)).has(DispatchKey.CPU)
    True
    """

    def __init__(self, keys: Any = ()):
        self.keys = frozenset([keys] if isinstance(keys, DispatchKey) else keys)

    def has(self, key: Any) -> bool:
        """Whether a key is in the set."""
        return key in self.keys

    def add(self, key: Any) -> DispatchKeySet:
        """The set with a key more."""
        return DispatchKeySet(self.keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """The set without a key."""
        return DispatchKeySet(self.keys - {key})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys | other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys & other.keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys - other.keys)

    def __iter__(self) -> Iterable[Any]:
        return iter(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self.keys))})"


class _ExcludeDispatchKeyGuard:
    """A block without what some keys stand for: those of autocast and of gradients.

    NotImplementedError for other keys, which stand for nothing here.
    """

    def __init__(self, keys: DispatchKeySet):
        names = {key.name for key in keys.keys}
        known = {n for n in names if n.startswith(("Autocast", "Autograd", "ADInplaceOrView"))}
        check(names == known, NotImplementedError, f"keys {sorted(names - known)} in a guard")
        self._blocks: list[Any] = []
        if any(name.startswith("Autocast") for name in names):
            self._blocks.append(modes.no_autocast)
        if any(name.startswith("Autograd") for name in names):
            self._blocks.append(modes.no_grad)
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        for block in self._blocks:
            entered = block()
            entered.__enter__()
            self._entered.append(entered)

    def __exit__(self, *exc: object) -> None:
        while self._entered:
            self._entered.pop().__exit__(*exc)
