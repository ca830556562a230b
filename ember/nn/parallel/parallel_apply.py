"""Several modules run side by side, a thread each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ember.core import modes
from ember.cuda.devices import device as cuda_device


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """`module(*input, **kwargs)` for each, in threads with the caller's modes; the first error is
    raised again."""
    named = kwargs_tup or [{}] * len(modules)
    places = devices or [None] * len(modules)
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException | None] = [None] * len(modules)
    grad, autocast = modes.state.grad, modes.state.autocast

    def work(position: int) -> None:
        modes.state.grad, modes.state.autocast = grad, autocast
        given = inputs[position]
        arguments = given if isinstance(given, (tuple, list)) else (given,)
        try:
            with cuda_device(places[position]):
                results[position] = modules[position](*arguments, **named[position])
        except BaseException as error:  # raised again in the caller's thread
            errors[position] = error

    if len(modules) == 1:
        with cuda_device(places[0]):
            given = inputs[0]
            return [
                modules[0](*(given if isinstance(given, (tuple, list)) else (given,)), **named[0])
            ]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position, error in enumerate(errors):
        if error is not None:
            error.add_note(f"Caught in replica {position} on device {places[position]}.")
            raise error
    return results
