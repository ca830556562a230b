"""EMBER_COMPILE=1: outermost calls of modules and of public functions go through the recorder, and
what the first of them returns is a replay's already. So any script or suite tests recordings."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.capture.background import background
from ember.capture.compiled import Captured, Recording, Run
from ember.capture.gradients import is_random
from ember.capture.guards import Reached
from ember.core.executor import current_executor
from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.nn.modules.module import Module
from ember.ops import load_rest

PLACES = {
    "torch": "ember",
    "nn.functional": "ember.nn.functional",
    "linalg": "ember.linalg",
    "fft": "ember.fft",
    "special": "ember.special",
}
MOST = 64  # recordings of one function: suites call it with many shapes


class Replayed(Captured):
    """A captured function whose recording is replayed at once, with everything as it was before.

    Random numbers, gradients that the function gives to leaves, and results that need gradients
    are those of the recorded call: a replay would draw, or add, a second time.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self.most = MOST

    def _before(self, leaves: list[Any], reached: Reached) -> Any:
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)] + reached.tensors
        storages = {id(t._array.storage): t._array.storage for t in tensors}
        return [
            (storage, storage.bytes().copy(), storage.version)
            for storage in storages.values()
            if isinstance(storage.buffer, np.ndarray)
        ]

    def _first(self, recording: Recording, run: Run, before: Any) -> Any:
        program, known = recording.program, {id(storage) for storage, *_ in before}
        assert program is not None
        if (
            is_random(run.recorder)
            or recording.grads
            or recording.graph is not None
            or any(id(storage) not in known for storage in program.written)
        ):
            return super()._first(recording, run, before)
        for storage, values, version in before:
            storage.bytes()[:] = values
            storage.version = version
        return recording.replay(run.leaves)


def _recorded(function: Any) -> Any:
    """A public function whose outermost calls are recorded."""
    captured = Replayed(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if current_executor() is not None:
            return function(*args, **kwargs)
        return captured(*args, **kwargs)

    return call


def _call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
    if self._compiled_call_impl is None:
        if current_executor() is not None:
            return self._call_impl(*args, **kwargs)
        self._compiled_call_impl = Replayed(self._call_impl)
    return self._compiled_call_impl(*args, **kwargs)


def install() -> None:
    """Put the recorder before modules, and before functions under their public names; programs are
    made at once."""
    background.at_once = True
    load_rest()
    for name in ("_wrapped_call_impl", "__call__"):
        setattr(Module, name, _call_module)
    for space, place in PLACES.items():
        module = importlib.import_module(place)
        for name, function in NAMESPACES[space].items():
            if callable(function) and not name.startswith("_"):
                setattr(module, name, _recorded(function))
