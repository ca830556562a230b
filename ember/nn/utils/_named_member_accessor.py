"""Tensors and submodules of a module by their dotted names: read, put in, exchanged, taken out.

A tensor is put where its name is (parameters, buffers, attributes), whatever it is: what was a
parameter may become a plain tensor for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.module import Module

_MISSING = object()


def _check_tensor(value: Any, where: str = "") -> None:
    check(
        isinstance(value, Tensor),
        TypeError,
        lambda: f"{where}{value} is not an instance of torch.Tensor",
    )


def _check_module(value: Any) -> None:
    wanted = isinstance(value, Module)
    check(wanted, TypeError, lambda: f"{value} is not an instance of torch.nn.Module")


def _held(module: Module, name: str) -> Any:
    """The dict of a module that has a name."""
    for held in (module._parameters, module._buffers):
        if name in held:
            return held
    return module.__dict__


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor under a name; returns what was there (an object that is no tensor, if nothing
    was, which `tensor` may be too: the name is then taken out).

    >>> import ember as torch
    >>> from ember.nn.utils._named_member_accessor import swap_tensor
    >>> linear = torch.nn.Linear(2, 1)
    >>> weight = swap_tensor(linear, "weight", torch.zeros(1, 2))
    >>> linear.weight
    tensor([[0., 0.]])
    """
    _check_module(module)
    if tensor is not _MISSING:
        _check_tensor(tensor)
    check("." not in name, KeyError, 'tensor name can\'t contain "."')
    check(name != "", KeyError, 'tensor name can\'t be empty string ""')
    held = _held(module, name)
    before = held[name] if name in held else getattr(module, name, _MISSING)
    if before is _MISSING:
        missing = f"{type(module).__name__} has no attribute `{name}`"
        check(allow_missing, AttributeError, missing)
    elif before is not None or held is module.__dict__:
        _check_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        held[name] = tensor
    else:
        held.pop(name, None)
    return before


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor under a name."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module under a name that has one, which is returned."""
    _check_module(module)
    _check_module(submodule)
    check("." not in name, KeyError, 'submodule name can\'t contain "."')
    check(name != "", KeyError, 'submodule name can\'t be empty string ""')
    check(name in module._modules, KeyError, f"submodule {name} does not exist")
    before, module._modules[name] = module._modules[name], submodule
    return before  # type: ignore[no-any-return]


class NamedMemberAccessor:
    """The tensors and submodules of a module, by dotted names.

    >>> import ember as torch
    >>> from ember.nn.utils._named_member_accessor import NamedMemberAccessor
    >>> access = NamedMemberAccessor(torch.nn.Sequential(torch.nn.Linear(2, 1)))
    >>> access.set_tensor("0.bias", torch.tensor([3.0]))
    >>> access.get_tensor("0.bias")
    tensor([3.])
    """

    def __init__(self, module: Module):
        self.module = module

    def __repr__(self) -> str:
        return f"NamedMemberAccessor(module={self.module!r})"

    def _owner(self, path: str) -> tuple[Module, str]:
        prefix, _, name = path.rpartition(".")
        return self.get_submodule(prefix), name

    def get_submodule(self, name: str) -> Module:
        """The submodule of a path ("": the module itself)."""
        found = self.module
        for part in name.split(".") if name else ():
            known = isinstance(getattr(found, part, None), Module)
            check(known, AttributeError, f"{type(found).__name__} has no attribute `{part}`")
            found = getattr(found, part)
        return found

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module in place of another, which is returned."""
        owner, name = self._owner(path)
        return swap_submodule(owner, name, value)

    def get_tensor(self, name: str) -> Any:
        """The tensor of a path (None for a parameter or buffer that is None)."""
        owner, name = self._owner(name)
        has = hasattr(owner, name)
        check(has, AttributeError, f"{type(owner).__name__} has no attribute `{name}`")
        found = getattr(owner, name)
        if found is not None:
            _check_tensor(found, f"attribute `{name}`: ")
        return found

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor under a path."""
        owner, name = self._owner(name)
        set_tensor(owner, name, value)

    def del_tensor(self, name: str) -> None:
        """Take a tensor out."""
        self.swap_tensor(name, _MISSING)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor under a path; returns what was there."""
        owner, name = self._owner(name)
        return swap_tensor(owner, name, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors of paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Put tensors under paths."""
        self.swap_tensors(names, values, allow_missing=True)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put tensors under paths."""
        self.set_tensors(named_tensors, named_tensors.values())

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take tensors out."""
        for name in list(names):
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False
    ) -> list[Any]:
        """Put tensors under paths; returns what was there."""
        names, values = list(names), list(values)
        check(len(names) == len(values), ValueError, "names and values must have the same length")
        pairs = zip(names, values, strict=True)
        return [self.swap_tensor(name, value, allow_missing) for name, value in pairs]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put tensors under paths; returns what was there, and the paths that had nothing. What
        fails leaves all as it was."""
        before: dict[str, Any] = {}
        missing = []
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
                if before[name] is _MISSING:
                    missing.append(name)
            check(
                allow_missing or not missing,
                RuntimeError,
                f"Missing key(s): {', '.join(map(repr, missing))}.",
            )
        except Exception:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """(missing, unexpected): the module's names that are not among the keys, and the other
        way."""
        given = set(keys)
        own = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The parameters, with their paths."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The buffers, with their paths."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The parameters, then the buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The submodules, with their paths."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
