"""What is done with the activations of a part between its forward and its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.autograd.graph import saved_tensors_hooks
from ember.core.array import empty
from ember.core.modes import no_grad
from ember.core.tensor import Tensor, tensor_of
from ember.device import META
from ember.kernel.array import contiguous_spec
from ember.utils.checkpoint import checkpoint

TREATMENTS = ("keep", "recompute", "offload")
SMALL = 4096  # bytes below which a tensor stays where it is


class Treated:
    """A forward whose activations stay, are computed again, or wait on the host; and whose weights
    do not stay for backward if a `fetcher` can bring them again."""

    def __init__(
        self, forward: Callable[..., Any], treatment: str, weights: Any = (), fetcher: Any = None
    ):
        self.forward, self.treatment, self.fetcher = forward, treatment, fetcher
        self.weights, self._storages = weights, frozenset[int]()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.treatment == "recompute":
            return checkpoint(self.forward, *args, use_reentrant=False, **kwargs)
        if self.treatment == "keep" and self.fetcher is None:
            return self.forward(*args, **kwargs)
        self._storages = frozenset(id(t._array.storage) for t in self.weights)
        with saved_tensors_hooks(self._away, self._back):
            return self.forward(*args, **kwargs)

    def _away(self, tensor: Tensor) -> tuple[str, Any]:
        marker = None if self.fetcher is None else self.fetcher.marker(tensor)
        if marker is not None:
            return "weight", marker
        spec, storage = tensor._array.spec, tensor._array.storage
        if self.treatment == "keep" or spec.nbytes < SMALL or id(storage) in self._storages:
            return "kept", tensor
        if spec.device is META:  # a recording: only that it is gone
            return "gone", contiguous_spec(spec.shape, spec.dtype, META)
        with no_grad():
            return "host", (tensor.detach().cpu(), spec.device)

    def _back(self, packed: tuple[str, Any]) -> Tensor:
        kind, value = packed
        if kind == "kept":
            return value  # type: ignore[no-any-return]
        if kind == "weight":
            return self.fetcher.restored(value)  # type: ignore[no-any-return]
        with no_grad():
            if kind == "gone":
                return tensor_of(empty(value))
            return value[0].to(value[1], non_blocking=True)  # type: ignore[no-any-return]


__all__ = ["TREATMENTS", "Treated"]
