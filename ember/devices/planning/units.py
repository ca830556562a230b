"""The parts of a module that a plan places as a whole."""

from __future__ import annotations

from typing import Any

from ember.nn.modules.container import ModuleList, Sequential


class Unit:
    """A module that is not cut, or a weight or buffer of one that is."""

    def __init__(self, name: str, module: Any, tensors: list[Any]):
        self.name, self.module, self.tensors = name, module, tensors

    def __repr__(self) -> str:
        return f"Unit({self.name!r})"


def units_of(model: Any, fine: frozenset[str] = frozenset()) -> list[Unit]:
    """The units of a model.

    A module is cut into its children if it is the model itself, or leads to the list of layers
    with most weights, or is named in `fine`; every other one stays whole, and so do weights that
    belong to a module that is cut.
    """
    main = _longest_list(model)
    cut = {"": model}
    for path, module in model.named_modules():
        leads = main is not None and any(m is main for m in module.modules())
        if leads or path in fine:
            cut[path] = module
    found: list[Unit] = []
    seen: set[int] = set()
    for path, module in cut.items():
        for name, child in module.named_children():
            full = f"{path}.{name}" if path else name
            if full not in cut and id(child) not in seen:
                seen.add(id(child))
                tensors = [*child.parameters(), *child.buffers()]
                found.append(Unit(full, child, tensors))
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        found += [Unit(f"{path}.{n}" if path else n, None, [t]) for n, t in own]
    return found


def _longest_list(model: Any) -> Any:
    lists = [m for m in model.modules() if isinstance(m, (ModuleList, Sequential)) and len(m) > 1]
    lists = [m for m in lists if sum(1 for c in m if any(True for _ in c.parameters())) > 1]
    if not lists:
        return None
    return max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))


__all__ = ["Unit", "units_of"]
