"""EMBER_COMPILE: programs that say nothing of `torch.compile` are compiled all the same.

With "modules", outermost calls of modules are; with "1", those of public functions too, and what
the first of them returns is a replay's already: so any script or suite tests recordings.
"""

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


def _calling(capture: Any) -> Any:
    """How modules are called: the outermost in a captured function, those within it as they are."""
    inside: list[Module] = []  # the module at work, whether it is recorded or not

    def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is None:
            if inside or current_executor() is not None:
                return self._call_impl(*args, **kwargs)
            self._compiled_call_impl = capture(self._call_impl)
        elif inside and isinstance(self._compiled_call_impl, Captured):
            return self._call_impl(*args, **kwargs)
        inside.append(self)
        try:
            return self._compiled_call_impl(*args, **kwargs)
        finally:
            inside.pop()

    return call_module


def install(how: str) -> None:
    """Put the recorder before modules, and if `how` is not "modules", before functions under their
    public names."""
    only_modules = how == "modules"
    call = _calling(Captured if only_modules else Replayed)
    for name in ("_wrapped_call_impl", "__call__"):
        setattr(Module, name, call)
    if only_modules:
        return
    background.at_once = True
    load_rest()
    for space, place in PLACES.items():
        module = importlib.import_module(place)
        for name, function in NAMESPACES[space].items():
            if callable(function) and not name.startswith("_"):
                setattr(module, name, _recorded(function))
