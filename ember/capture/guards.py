"""What a recording depends on: the arguments, the modules and tensors that a function reaches, and
the modes that were in force."""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Callable, Iterator
from itertools import chain
from operator import is_
from typing import Any

from ember.backends import base
from ember.core import modes
from ember.core.cells import Tape
from ember.core.op import Op
from ember.core.tensor import Tensor
from ember.layout import Size
from ember.nn.modules.module import Module
from ember.nn.parameter import is_lazy
from ember.pytree import tree_flatten

waits: Callable[[Any], bool] = is_lazy  # untyped, as all of nn

PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


CONTAINERS = (list, dict, set, collections.deque)


def _contents(container: Any) -> list[int]:
    values = container.values() if isinstance(container, dict) else container
    return [*map(id, values), *map(id, container if isinstance(container, dict) else ())]


def _random_states() -> tuple[Any, ...]:
    """Where the generators of Python's `random` and NumPy's `random` are, if they are in use."""
    found: list[Any] = []
    if "random" in sys.modules:
        found.append(sys.modules["random"].getstate())
    if "numpy.random" in sys.modules:
        _, words, place, *_ = sys.modules["numpy.random"].get_state()
        found += [words.tobytes(), place]
    return tuple(found)


class Reached:
    """What a function can see: its object, its arguments, its closure, and the globals that it
    names."""

    def __init__(self, function: Any, leaves: list[Any]):
        self.cells: list[tuple[Any, Any]] = []  # closure cells, with what they held
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        self.defaults: list[Any] = []  # values of parameters that a call leaves out
        roots = [function, getattr(function, "__self__", None), *leaves]
        self._look_into(function, set())
        roots += [value for _, value in self.cells] + [value for *_, value in self.globals]
        roots += self.defaults
        owners = [root for root in roots if _is_instance(root)]
        roots += [value for owner in owners for value in vars(owner).values()]
        self.objects = list({id(v): v for v in roots if _is_instance(v)}.values())
        modules: dict[int, Module] = {}
        tensors: dict[int, Tensor] = {}
        for root in roots:
            for value in tree_flatten(root)[0]:
                if isinstance(value, Module):
                    every: Any = value.modules  # untyped, as all of nn
                    modules.update((id(m), m) for m in every())
                elif isinstance(value, Tensor) and not any(value is leaf for leaf in leaves):
                    tensors[id(value)] = value
        self.modules = list(modules.values())
        for module in self.modules:
            held = [*module._parameters.values(), *module._buffers.values()]
            held += [v for v in module.__dict__.values() if isinstance(v, Tensor)]
            tensors.update((id(t), t) for t in held if t is not None)
        self.tensors = list(tensors.values())
        held = [*roots, *(v for m in self.modules for v in m.__dict__.values())]
        containers = {id(v): v for v in held if type(v) in CONTAINERS}
        self.contents = [(c, _contents(c)) for c in containers.values()]
        self.facts = [(m, module_facts(m)) for m in self.modules]
        self.facts += [(o, object_facts(o)) for o in self.objects if not hasattr(o, "param_groups")]
        self.leaves = [t for t in self.tensors if t.requires_grad and t.is_leaf]
        groups = [g for o in self.objects for g in getattr(o, "param_groups", ())]
        self.options = [(g, dict(g)) for g in groups if isinstance(g, dict)]
        self.draws = _random_states()

    def _look_into(self, function: Any, seen: set[int]) -> None:
        """The closure and the globals of a function, and of the functions among them."""
        plain = getattr(function, "__func__", function)
        plain = getattr(plain, "__wrapped__", plain)
        if not isinstance(plain, types.FunctionType) or id(plain) in seen:
            return
        seen.add(id(plain))
        if (plain.__module__ or "").partition(".")[0] == "ember":
            return
        found = [*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()]
        self.defaults += found
        for cell in plain.__closure__ or ():
            try:
                self.cells.append((cell, cell.cell_contents))
            except ValueError:  # not filled yet
                continue
            found.append(cell.cell_contents)
        for name in plain.__code__.co_names:
            if name in plain.__globals__:
                value = plain.__globals__[name]
                self.globals.append((plain.__globals__, name, value))
                found.append(value)
        for value in found:
            self._look_into(value, seen)

    def changed(self) -> str | None:
        """What Python has changed around the function since, which a replay would leave out."""
        for container, contents in self.contents:
            if _contents(container) != contents:
                return f"it changes a {type(container).__name__} outside"
        for owner, facts in self.facts:
            if facts_of(owner) != facts:
                return f"it changes an attribute of a {type(owner).__name__}"
        for group, options in self.options:
            if len(group) != len(options) or any(group[k] is not v for k, v in options.items()):
                return "it changes an option of an optimizer"
        if _random_states() != self.draws:
            return "it draws random numbers of Python's or NumPy's"
        return None

    def is_unfinished(self) -> bool:
        """Whether parameters wait for the first call to tell their shapes."""
        return any(waits(t) for t in self.tensors)

    def has_hooks(self) -> bool:
        """Whether Python runs around a module's forward that a replay would leave out."""
        return any(m._forward_hooks or m._forward_pre_hooks for m in self.modules)


def module_facts(module: Module) -> tuple[Any, ...]:
    """What a module's forward may ask of its object: flags and numbers, and which tensors it
    has."""
    facts: list[Any] = [v for v in module.__dict__.values() if type(v) in PLAIN]
    for held in (module._parameters, module._buffers, module._modules):
        facts += map(id, held.values())
    return tuple(facts)


def object_facts(owner: Any) -> tuple[Any, ...]:
    """The numbers and flags among an object's attributes, and which tensors it has."""
    values = vars(owner).values()
    plain = [v for v in values if type(v) in PLAIN]
    return (*plain, *(id(v) for v in values if isinstance(v, Tensor)))


def facts_of(owner: Any) -> tuple[Any, ...]:
    """What a function may ask of a module or another object."""
    return module_facts(owner) if isinstance(owner, Module) else object_facts(owner)


def _dicts(owner: Any) -> list[dict[str, Any]]:
    """What holds all that an object holds."""
    if not isinstance(owner, Module):
        return [vars(owner)]
    return [vars(owner), owner._parameters, owner._buffers, owner._modules]


def _values(dicts: list[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(map(dict.values, dicts))


def _held(owner: Any) -> list[Any]:
    """All that an object holds: while these are the same objects, its facts are the same."""
    return [*_values(_dicts(owner))]


def _are_same(found: list[Any], before: list[Any]) -> bool:
    return len(found) == len(before) and all(map(is_, found, before))


def _is_instance(value: Any) -> bool:
    """Whether a value is an object of a program's class, whose attributes a function may read."""
    kinds = (Module, Tensor, Op, type, types.ModuleType, types.FunctionType, types.MethodType)
    return hasattr(value, "__dict__") and not isinstance(value, kinds)


def leaf_key(leaf: Any) -> Any:
    """What a recording depends on of an argument; the object itself for what is no number."""
    if isinstance(leaf, Tensor):
        return type(leaf), leaf._array.spec, leaf._requires_grad
    if isinstance(leaf, Size):
        return Size, tuple(leaf)
    return (type(leaf), leaf) if type(leaf) in PLAIN else id(leaf)


def modes_in_force() -> tuple[Any, ...]:
    """The modes that change what ops do."""
    state = modes.state
    cast = tuple(sorted((k, v[0], v[1].name) for k, v in state.autocast.items()))
    gpus = base._backends.get("cuda")
    current = None if gpus is None else gpus.current()
    defaults = modes.get_default_dtype(), modes.default_device(), current
    return state.grad, state.inference, cast, *defaults


class Guard:
    """Says whether a recording is right for a call."""

    def __init__(self, leaves: list[Any], structure: Any, reached: Reached):
        self.structure = structure
        self.keys = [leaf_key(leaf) for leaf in leaves]
        self.kept = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]  # ids stay theirs
        self.aliases = _aliases(leaves)
        self.modes = modes_in_force()
        self.cells = [(c, v, type(v) in PLAIN) for c, v in reached.cells]
        self.globals = [(g, n, v, type(v) in PLAIN) for g, n, v in reached.globals]
        self.facts = [(owner, _held(owner), facts) for owner, facts in reached.facts]
        self.owners = [owner for owner, _ in reached.facts]
        self.attributes = list(map(vars, self.owners))
        self.dicts = [d for owner in self.owners for d in _dicts(owner)]
        self.sizes, self.held = list(map(len, self.dicts)), [*_values(self.dicts)]
        self.tensors = [(t, t._array.storage, t._requires_grad) for t in reached.tensors]
        self.grads = [(t, t.grad is None) for t in reached.leaves]
        self.checks: list[Callable[[], bool]] = []  # of optimizers
        self.tape: Tape | None = None

    def fails(self, leaves: list[Any], structure: Any) -> str | None:
        """What is not as it was, or None."""
        if structure != self.structure or len(leaves) != len(self.keys):
            return "the arguments have another structure"
        for position, (leaf, key) in enumerate(zip(leaves, self.keys, strict=True)):
            if leaf_key(leaf) != key:
                return f"argument {position} is {_words(leaf)}"
        if _aliases(leaves) != self.aliases:
            return "other arguments share memory"
        if modes_in_force() != self.modes:
            return "gradient mode, autocast or a default has changed"
        for cell, value, plain in self.cells:
            now = cell.cell_contents
            if not (now == value and type(now) is type(value) if plain else now is value):
                return "a variable of the enclosing function has another value"
        for names, name, value, plain in self.globals:
            now = names.get(name)
            if not (now == value and type(now) is type(value) if plain else now is value):
                return f"the global {name} has another value"
        if not self._are_untouched():
            for owner, held, facts in self.facts:
                if not _are_same(_held(owner), held) and facts_of(owner) != facts:
                    kind = type(owner).__name__
                    return f"an attribute of a {kind} has changed (training, perhaps)"
        for tensor, storage, requires in self.tensors:
            if tensor._array.storage is not storage or tensor._requires_grad is not requires:
                return "a parameter or buffer has other memory"
        for tensor, missing in self.grads:
            if (tensor.grad is None) is not missing:
                return "gradients were there, or were not, before the call"
        if not all(check() for check in self.checks):
            return "an optimizer has other groups, options, hooks or state"
        if self.tape is not None and not self.tape.run():
            return "numbers of an optimizer decide otherwise"
        return None

    def _are_untouched(self) -> bool:
        """Whether all that the modules and objects hold is what it was, which is quickly seen."""
        if not all(map(is_, map(vars, self.owners), self.attributes)):
            return False
        return list(map(len, self.dicts)) == self.sizes and all(
            map(is_, _values(self.dicts), self.held)
        )


def _aliases(leaves: list[Any]) -> tuple[int, ...]:
    seen: dict[int, int] = {}
    return tuple(
        seen.setdefault(id(leaf._array.storage), position)
        for position, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
    )


def _words(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"a {leaf.dtype} tensor of shape {tuple(leaf.shape)} on {leaf.device}"
    return repr(leaf) if type(leaf) in PLAIN else f"another {type(leaf).__name__}"
