"""The parts of a module that a plan places as a whole."""

from __future__ import annotations

from typing import Any

from ember.nn.modules.container import ModuleDict, ModuleList, Sequential

CONTAINERS = (ModuleList, ModuleDict)


class Unit:
    """A module that is not cut, or a weight or buffer of one that is."""

    def __init__(self, name: str, module: Any, tensors: list[Any]):
        self.name, self.module, self.tensors = name, module, tensors

    def __repr__(self) -> str:
        return f"Unit({self.name!r})"


def units_of(model: Any, fine: frozenset[str] = frozenset()) -> list[Unit]:
    """The units of a model.

    A module is cut into its children if it is the model itself, or leads to the list of layers
    with most weights, or is a list or dict of modules, which is never called, or is named in
    `fine`. Every other one stays whole, and so do weights that belong to a module that is cut.
    """
    main = _longest_list(model)
    found: list[Unit] = []
    seen: set[int] = set()

    def walk(path: str, module: Any) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        leads = main is not None and any(m is main for m in module.modules())
        if path and not leads and path not in fine and not isinstance(module, CONTAINERS):
            found.append(Unit(path, module, [*module.parameters(), *module.buffers()]))
            return
        for name, child in module.named_children():
            walk(f"{path}.{name}" if path else name, child)
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        found.extend(Unit(f"{path}.{n}" if path else n, None, [t]) for n, t in own)

    walk("", model)
    return found


def _longest_list(model: Any) -> Any:
    lists = [m for m in model.modules() if isinstance(m, (ModuleList, Sequential)) and len(m) > 1]
    lists = [m for m in lists if sum(1 for c in m if any(True for _ in c.parameters())) > 1]
    if not lists:
        return None
    return max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))


__all__ = ["Unit", "units_of"]
