"""`torch.utils.deterministic`: whether memory without values is filled while deterministic
algorithms are asked for, as it is by default."""

from __future__ import annotations

import sys
from types import ModuleType

from ember.core.factory import mark_uninitialised
from ember.errors import check


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `torch.empty` and its kin fill with NaN, the largest integer or True while
        `torch.use_deterministic_algorithms` is on. RuntimeError for what is no bool."""
        return mark_uninitialised()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        check(
            isinstance(mode, bool),
            RuntimeError,
            f"expected a bool, but got {type(mode).__name__}",
        )
        mark_uninitialised(asked=mode)


sys.modules[__name__].__class__ = _Deterministic
