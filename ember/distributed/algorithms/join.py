"""`Join`: a block in which processes may run out of inputs at different times.

Before each pass a process counts how many others still have inputs. One that has none left takes
part in the collectives of the others' passes, by the hooks of what it joins, until none has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ember.core.modes import no_grad
from ember.errors import check
from ember.ops import zeros


class JoinHook:
    """What a process does for the others once it has no more inputs."""

    def main_hook(self) -> None:
        """Called for each pass of the others: the collectives that they make in it."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all processes are done."""


class Joinable(ABC):
    """Something that can be used in a `Join` block."""

    def __init__(self) -> None:
        self._join_config: Join | None = None

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of a process without inputs."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where the counts of a join are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Whose processes join."""


class Join:
    """A block around a training loop whose processes may have different numbers of inputs.

    With `throw_on_early_termination` all processes get a RuntimeError once one has no more inputs.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ):
        check(joinables, ValueError, "The join context manager requires at least one joinable")
        self._joinables, self._enabled = list(joinables), enable
        self._throws = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._group = joinables[0].join_process_group
        self._device = joinables[0].join_device

    def __enter__(self) -> None:
        for joinable in self._joinables:
            joinable._join_config = self if self._enabled else None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        for joinable in self._joinables:
            joinable._join_config = None
        if not self._enabled or kind is not None:
            return
        last = True
        with no_grad():
            while self._count(0) > 0:
                last = False
                self._stop_early()
                for hook in self._hooks:
                    hook.main_hook()
            for hook in self._hooks:
                hook.post_hook(last)

    def _count(self, active: int) -> int:
        counts = zeros(1, device=self._device) + active
        self._group.allreduce([counts])
        return int(counts.item())

    def _stop_early(self) -> None:
        check(
            not self._throws,
            RuntimeError,
            "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
        )

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Tell the block that this process begins a pass."""
        join = joinable._join_config
        if join is not None and joinable is join._joinables[0]:
            with no_grad():
                if join._count(1) < join._group.size():
                    join._stop_early()


__all__ = ["Join", "JoinHook", "Joinable"]
