"""Weights that stay on the host: copied to a GPU one part ahead of its work, dropped after it, and
copied again for backward."""

from __future__ import annotations

import itertools
from typing import Any

from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.cuda.streams import Stream, current_stream
from ember.device import device as Device
from ember.devices.planning.following import Fetched, unfollowed


class HostWeights:
    """The weights of one part, with the parts before and after it whose weights wait as well."""

    def __init__(self, parameters: list[Any], device: Device, streams: dict[Device, Any]):
        self.parameters, self.device = parameters, device
        self.before: HostWeights | None = None
        self.after: HostWeights | None = None
        self.fetches = 0  # how often its weights were copied
        self._copies: dict[int, Tensor] = {}
        self._versions: list[int] = []  # that the weights had when they were copied
        self._links: dict[int, Tensor] = {}
        self._streams = streams

    def start(self) -> None:
        """Begin to copy, beside the work that goes on."""
        versions = [p._version for p in self.parameters]
        if self._copies and versions == self._versions:
            return
        self.fetches += 1
        self._versions = versions
        with no_grad(), unfollowed():
            if self.device.type != "cuda":
                self._copies = {id(p): p.detach().to(self.device) for p in self.parameters}
                return
            if self.device not in self._streams:
                self._streams[self.device] = Stream(self.device)
            with self._streams[self.device]:
                self._copies = {
                    id(p): p.detach().to(self.device, non_blocking=True) for p in self.parameters
                }

    def arrive(self) -> None:
        """Have the copies here."""
        self.start()
        if self.device.type == "cuda":
            current_stream(self.device).wait_stream(self._streams[self.device])

    def fetched(self, parameter: Tensor) -> Tensor:
        """The copy of a weight, connected to it."""
        key = id(parameter)
        if key not in self._links:
            with unfollowed():
                self.arrive()
                self._links[key] = Fetched.apply(parameter, self._copies[key])
        return self._links[key]

    def unlink(self) -> None:
        """Let the next forward connect copies anew."""
        self._links.clear()

    def drop(self) -> None:
        """Forget the copies."""
        self._copies.clear()
        self._links.clear()

    # what backward needs of them

    def marker(self, tensor: Tensor) -> Any:
        """What stands for a weight, or a view of one, until backward; None for other tensors."""
        for key, copied in self._copies.items():
            if copied._array.storage is tensor._array.storage:
                return key, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        return None

    def restored(self, marker: Any) -> Tensor:
        """The weight again, in backward."""
        key, shape, strides, offset = marker
        self.arrive()
        self._tidy()
        with no_grad(), unfollowed():
            return self._copies[key].as_strided(shape, strides, offset)

    def _tidy(self) -> None:
        if self.after is not None:
            self.after.drop()
        if self.before is not None:
            self.before.start()


def chained(parts: list[HostWeights]) -> None:
    """Let each part know its neighbours on the same device."""
    for one, other in itertools.pairwise(parts):
        if one.device is other.device:
            one.after, other.before = other, one
