"""What an archive's classes become: modules, plain objects and named tuples."""

from __future__ import annotations

from typing import Any

from ember.core.tensor import Tensor
from ember.jit._script import RecursiveScriptModule
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter


class LoadedModule(RecursiveScriptModule):
    """A module of an archive. Its class is made from the archive: methods are interpreted."""

    _script_name = ""
    _declared_parameters: frozenset[str] = frozenset()
    _declared_buffers: frozenset[str] = frozenset()

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return self._script_name

    @property
    def code(self) -> str:
        """The source of `forward` in the archive."""
        return getattr(type(self).forward, "source", "")

    def _begin(self) -> None:
        """Be an empty module."""
        Module.__init__(self)

    def _set_loaded_state(self, state: dict[str, Any]) -> None:
        """Take the attributes that the archive gives the module."""
        for name, value in state.items():
            if name in self._declared_parameters and isinstance(value, Tensor):
                value = value if isinstance(value, Parameter) else _as_parameter(value)
                self._parameters[name] = value
            elif name in self._declared_parameters:
                self._parameters[name] = value
            elif name in self._declared_buffers:
                self._buffers[name] = value
            elif isinstance(value, Module):
                self._modules[name] = value
            else:
                self.__dict__[name] = value

    def extra_repr(self) -> str:
        """The name of the class that was scripted."""
        return f"original_name={self.original_name}"


def _as_parameter(value: Tensor) -> Parameter:
    return Parameter(value.detach(), requires_grad=value.requires_grad)


class ScriptObject:
    """An object of a class in an archive that is no module."""

    def __enter__(self) -> Any:
        return self._call_own("__enter__")

    def __exit__(self, *exc: Any) -> None:
        self._call_own("__exit__", None, None, None)

    def _call_own(self, name: str, *args: Any) -> Any:
        return type(self)._methods[name](self, *args)

    _methods: dict[str, Any] = {}


def attribute(owner: Any, name: str) -> Any:
    """An attribute of an object of the archive; AttributeError for those of anything else."""
    kind = type(owner)
    if isinstance(owner, LoadedModule):
        own = vars(owner)
        for place in (own["_parameters"], own["_buffers"], own["_modules"], own):
            if name in place:
                return place[name]
        if name in vars(kind) and (not name.startswith("__") or name == "__len__"):
            return getattr(owner, name)
    if isinstance(owner, ScriptObject):
        if name in kind._methods:
            return lambda *args, **kwargs: kind._methods[name](owner, *args, **kwargs)
        if name in vars(owner):
            return vars(owner)[name]
    if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        return getattr(owner, name)
    if isinstance(owner, type) and name == "__new__" and issubclass(owner, ScriptObject):
        return object.__new__
    raise AttributeError(f"the archive asks for {name!r} of a {kind.__name__}")


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of an object of the archive; AttributeError for those of anything else."""
    if not isinstance(owner, (LoadedModule, ScriptObject)) or name.startswith("__"):
        raise AttributeError(f"the archive sets {name!r} of a {type(owner).__name__}")
    setattr(owner, name, value)
