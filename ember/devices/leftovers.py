"""What a move of a module would leave behind, or pull apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ember.core.tensor import Tensor
from ember.devices.mismatch import contained, tensors_of
from ember.nn.modules.module import Module
from ember.nn.places import written


class Finding(NamedTuple):
    """One thing that a move would not do right: `str` of it says what and how to mend it."""

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        return self.text


def check(module: Any, optimizer: Any = None, name: str = "model") -> list[Finding]:
    """What `module.to(device)` would leave behind; an empty list if all goes along.

    Plain tensor attributes, layers and parameters in Python lists and dicts, tensors that share
    memory and would not after the move, tensors on several devices; with an optimizer, tensors
    that it holds and the module has not, and parameters that it does not know. `name` stands for
    the module in the texts.

    >>> import ember as torch
    >>> net = torch.nn.Linear(2, 2)
    >>> net.mask = torch.ones(2)
    >>> for finding in torch.devices.check(net):
    ...     print(finding)
    model.mask is a plain tensor: self.register_buffer('mask', ..., persistent=False) lets it move
    """
    found = [*_plain(module, name), *_hidden(module, name), *_shared(module, name)]
    found += _spread(module)
    if optimizer is not None:
        found += _optimizer(module, optimizer, name)
    return found


def _plain(root: Any, name: str) -> Iterator[Finding]:
    for inner, module in root.named_modules():
        for kind, (tensor, path), _, attribute in tensors_of(module, name + written(inner)):
            if kind != "attribute":
                continue
            if path.endswith(f".{attribute}"):
                mend = f"self.register_buffer({attribute!r}, ..., persistent=False) lets it move"
                yield Finding("plain tensor", path, f"{path} is a plain tensor: {mend}")
            elif type(tensor).__name__ == "Parameter":
                text = f"{path} is a parameter in a Python {_container(module, attribute)}, which "
                text += "neither moves nor is trained: keep it in torch.nn.ParameterList"
                yield Finding("hidden parameter", path, text)
            else:
                text = f"{path} is a tensor in a Python {_container(module, attribute)}: register "
                yield Finding("plain tensor", path, text + "each as a buffer to let it move")


def _container(module: Any, attribute: str) -> str:
    return type(vars(module)[attribute]).__name__


def _hidden(root: Any, name: str) -> Iterator[Finding]:
    known = set(root.modules())
    for inner, module in root.named_modules():
        for attribute, value in vars(module).items():
            if attribute == "_modules":
                continue
            for layer, index in contained(value, Module):
                if layer in known:
                    continue
                path = f"{name}{written(inner)}.{attribute}{index}"
                kind = type(value).__name__
                keep = "ModuleDict" if isinstance(value, dict) else "ModuleList"
                text = (
                    f"{path} ({type(layer).__name__}) is in a Python {kind}, so its weights "
                    f"neither move nor are trained: keep it in torch.nn.{keep}"
                )
                yield Finding("hidden layer", path, text)


def _shared(root: Any, name: str) -> Iterator[Finding]:
    """Registered tensors that are one memory, and would be two after a move."""
    seen: dict[int, list[tuple[str, str, Any]]] = {}
    for inner, module in root.named_modules():
        for kind, (tensor, path), _, _ in tensors_of(module, name + written(inner)):
            if kind != "attribute" and tensor._array.storage.nbytes:
                seen.setdefault(id(tensor._array.storage), []).append((kind, path, tensor))
    for members in seen.values():
        first = members[0]
        for kind, path, tensor in members[1:]:
            if tensor is first[2] and kind == "parameter":
                continue  # tied weights: one object, moved in place
            text = (
                f"{path} and {first[1]} share memory, which a move ends: register it once and use "
                "it from there"
            )
            yield Finding("split by a move", path, text)


def _spread(root: Any) -> Iterator[Finding]:
    tensors = [*root.named_parameters(), *root.named_buffers()]
    places: dict[str, list[str]] = {}
    for path, tensor in tensors:
        places.setdefault(str(tensor.device), []).append(path)
    if len(places) > 1:
        shown = "; ".join(
            f"{len(paths)} on {place} (such as {paths[0]})" for place, paths in places.items()
        )
        yield Finding("several devices", "", f"its tensors are on several devices: {shown}")


def _optimizer(root: Any, optimizer: Any, name: str) -> Iterator[Finding]:
    own = {id(p): path for path, p in root.named_parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    strange = [p for p in held if id(p) not in own]
    kind = type(optimizer).__name__
    if strange:
        shapes = ", ".join(str(list(p.shape)) for p in strange[:3])
        text = (
            f"{kind} holds {len(strange)} of {len(held)} tensors that are not parameters of {name} "
            f"({shapes}{', ...' if len(strange) > 3 else ''}): make the optimizer after the model "
            "has its final parameters"
        )
        yield Finding("optimizer holds others", "", text)
    known = {id(p) for p in held}
    missing = [
        path for path, p in root.named_parameters() if p.requires_grad and id(p) not in known
    ]
    if missing:
        text = f"{kind} does not know {len(missing)} parameters of {name}, such as {missing[0]}"
        yield Finding("not optimized", missing[0], text)
    for parameter, state in optimizer.state.items():
        strays = [
            key
            for key, value in state.items()
            if isinstance(value, Tensor) and value.ndim and value.device is not parameter.device
        ]
        if strays and id(parameter) in own:
            path = f"{name}.{own[id(parameter)]}"
            text = (
                f"{kind} keeps {', '.join(strays)} of {path} elsewhere than on {parameter.device}"
            )
            yield Finding("optimizer state", path, f"{text}: its next step moves them there")
