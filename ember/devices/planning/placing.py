"""A plan carried out: weights moved to where they belong, and forwards that know where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.core import modes
from ember.core.modes import no_grad
from ember.device import CPU
from ember.device import device as Device
from ember.devices.planning.following import Following, Placed
from ember.devices.planning.host_weights import HostWeights, chained
from ember.devices.planning.treatment import Treated
from ember.devices.planning.units import Unit


class Assignment:
    """Where one unit goes: the device that computes, whether its weights stay on the host, and
    what is done with its activations."""

    def __init__(self, device: Device, treatment: str = "keep", on_host: bool = False):
        self.device, self.treatment, self.on_host = device, treatment, on_host


class UnitForward:
    """The forward of a module that lies on one device."""

    def __init__(self, module: Any, placed: Placed, how: Assignment, fetcher: HostWeights | None):
        self.module, self.placed, self.how, self.fetcher = module, placed, how, fetcher
        self.forward: Callable[..., Any] = module.forward
        weights = [*module.parameters(), *module.buffers()]
        self.treated = Treated(self._inside, how.treatment, weights, fetcher)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        following = _innermost(self.placed)
        if following is None:  # the module alone was called
            return self._inside(*args, **kwargs)
        following.enter(self.how.device)
        args, kwargs = following.bring_all((args, kwargs))
        if self.fetcher is not None:
            self._look_ahead(self.fetcher)
        made = self.treated(*args, **kwargs)
        if self.fetcher is not None:
            self.fetcher.drop()
        return made

    def _look_ahead(self, fetcher: HostWeights) -> None:
        fetcher.arrive()
        if fetcher.after is not None:
            fetcher.after.start()

    def _inside(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if _innermost(self.placed) is not None:
                return self.forward(*args, **kwargs)
            with Following(self.placed) as following:  # run again in backward, or by itself
                following.where = self.how.device
                args, kwargs = following.bring_all((args, kwargs))
                return self.forward(*args, **kwargs)
        finally:
            if self.fetcher is not None:
                self.fetcher.unlink()


class ModelForward:
    """The forward of the whole model: activations follow the weights in it."""

    def __init__(self, module: Any, placed: Placed):
        self.module, self.placed = module, placed
        self.forward: Callable[..., Any] = module.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _innermost(self.placed) is not None:
            return self.forward(*args, **kwargs)
        with Following(self.placed):
            return self.forward(*args, **kwargs)


FORWARDS = (UnitForward, ModelForward)


def _innermost(placed: Placed) -> Following | None:
    for mode in reversed(modes.state.functions):
        if isinstance(mode, Following) and mode.placed is placed:
            return mode
    return None


class Applied:
    """What was done to a model, so that it can be undone."""

    def __init__(self, model: Any, units: list[Unit], how: dict[str, Assignment], first: Device):
        self.model, self.placed = model, Placed(first)
        self.fetchers: dict[str, HostWeights] = {}
        self._wrapped: list[Any] = []
        streams: dict[Device, Any] = {}
        for unit in units:
            self._move(unit, how[unit.name], streams)
        chained(list(self.fetchers.values()))
        for unit in units:
            if unit.module is not None:
                fetcher = self.fetchers.get(unit.name)
                self._wrap(
                    unit.module, UnitForward(unit.module, self.placed, how[unit.name], fetcher)
                )
        self._wrap(model, ModelForward(model, self.placed))

    def _move(self, unit: Unit, how: Assignment, streams: dict[Device, Any]) -> None:
        target = CPU if how.on_host else how.device
        if unit.module is not None:
            unit.module.to(target)
        else:
            _move_weight(self.model, unit.name, target)
        weights = _weights_of(self.model, unit)
        for tensor in weights:
            self.placed.weights[id(tensor)] = how.device
        if how.on_host and how.device is not CPU:
            fetcher = HostWeights(weights, how.device, streams)
            self.fetchers[unit.name] = fetcher
            self.placed.fetchers.update((id(t), fetcher) for t in weights)

    def _wrap(self, module: Any, forward: Any) -> None:
        self._wrapped.append(module)
        module.forward = forward

    def rest(self) -> None:
        """Forget copies of the host's weights that were made ahead."""
        for fetcher in self.fetchers.values():
            fetcher.drop()

    def undo(self) -> None:
        """Give the modules their own forwards again; the weights stay where they are."""
        for module in self._wrapped:
            module.__dict__.pop("forward", None)
        self._wrapped.clear()


def _weights_of(model: Any, unit: Unit) -> list[Any]:
    if unit.module is not None:
        return list(unit.module.parameters())
    owner, name = _owner(model, unit.name)
    found = owner._parameters.get(name)
    return [] if found is None else [found]


def _owner(model: Any, path: str) -> tuple[Any, str]:
    owner, _, name = path.rpartition(".")
    return model.get_submodule(owner), name


def _move_weight(model: Any, path: str, target: Device) -> None:
    owner, name = _owner(model, path)
    with no_grad():
        if name in owner._buffers:
            owner._buffers[name] = owner._buffers[name].to(target)
            return
        parameter = owner._parameters[name]
        gradient, parameter.grad = parameter.grad, None
        parameter.data = parameter.data.to(target)
        parameter.grad = None if gradient is None else gradient.to(target)
