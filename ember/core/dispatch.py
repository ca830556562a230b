"""The funnel: the one place that knows of devices, promotion, autocast, recording and overrides.

Every op, whatever its kind, comes here with its bound arguments: `find_device`, `autocast`,
`promoted` plan it, the nodes record what ran. Plans are kept by the ops,
keyed by the interned specs of the arguments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ember import dtypes
from ember.core import modes
from ember.core.autocast_lists import LISTS
from ember.core.node import NO_EDGE, Node, Saved, edge_of
from ember.core.node_names import node_type as node_type
from ember.core.second_order import linked
from ember.core.tensor import Tensor, disabled_torch_function
from ember.core.tensor import needs_grad as needs_grad
from ember.device import CPU
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import DeviceMismatchError, check
from ember.kernel.array import Spec

NUMBERS = (bool, int, float, complex)
plan_caches: list[dict[Any, Any]] = []


def new_plan_cache() -> dict[Any, Any]:
    """A cache of plans, emptied when the default dtype changes."""
    cache: dict[Any, Any] = {}
    plan_caches.append(cache)
    return cache


def _forget_plans() -> None:
    for cache in plan_caches:
        cache.clear()


modes.on_default_dtype(_forget_plans)

# devices


def find_device(
    name: str, operands: Sequence[tuple[str, Any]], zero_dim_moves: bool = True
) -> Device:
    """The device of the tensors among named operands; DeviceMismatchError names each one if they
    differ.

    A CPU tensor of 0 dims goes along with GPU tensors, like a number.
    """
    found: Device | None = None
    mixed = False
    for _, value in operands:
        for tensor in _tensors_of(value):
            spec = tensor._array.spec
            if found is None or spec.device is found:
                found = spec.device
            else:
                mixed = True
    if not mixed:
        return found or CPU
    full = [
        (n, t)
        for n, v in operands
        for t in _tensors_of(v)
        if not (zero_dim_moves and _goes_along(t))
    ]
    places = {t._array.spec.device for _, t in full}
    if len(places) == 1:
        return places.pop()
    raise mismatch(name, [(n, t) for n, v in operands for t in _tensors_of(v)])


def _goes_along(tensor: Tensor) -> bool:
    spec = tensor._array.spec
    return spec.ndim == 0 and spec.device is CPU


def _tensors_of(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, (tuple, list)):
        return [t for t in value if isinstance(t, Tensor)]
    return ()


def mismatch(name: str, operands: Sequence[tuple[str, Tensor]]) -> DeviceMismatchError:
    """The error for operands on different devices: who is where, and the move that would fix it."""
    places: list[Device] = []
    for _, tensor in operands:
        if tensor._array.spec.device not in places:
            places.append(tensor._array.spec.device)
    target = next((p for p in places if p.type != "cpu"), places[0])
    who = ", ".join(
        f"{n} {list(t._array.spec.shape)} is on {t._array.spec.device}" for n, t in operands
    )
    stray = next(n for n, t in operands if t._array.spec.device is not target)
    explain = importlib.import_module("ember.devices.mismatch").explain  # loads with an error
    return DeviceMismatchError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{places[0]} and {places[1]}! (when checking arguments of {name}: {who}). Move it first, "
        f"for example {stray} = {stray}.to('{target}').{explain(operands, target)}"
    )


# promotion


def number_type(value: Any) -> DType:
    """The dtype that a Python number stands for."""
    category = dtypes.category_of_number(value)
    if category == dtypes.BOOL:
        return dtypes.bool_
    if category == dtypes.INTEGRAL:
        return dtypes.int64
    default = modes.get_default_dtype()
    return default if category == dtypes.FLOAT else default.to_complex()


def promoted(values: Iterable[Any]) -> DType:
    """The common dtype of tensors (with and without dims) and Python numbers, by PyTorch's three
    categories."""
    dims: DType | None = None
    zero: DType | None = None
    numbers: DType | None = None
    for value in values:
        if isinstance(value, Tensor):
            spec = value._array.spec
            if spec.ndim:
                dims = spec.dtype if dims is None else dtypes.promote_types(dims, spec.dtype)
            else:
                zero = spec.dtype if zero is None else dtypes.promote_types(zero, spec.dtype)
        elif value is not None:
            kind = number_type(value)
            numbers = kind if numbers is None else dtypes.promote_types(numbers, kind)
    return _combined(dims, _combined(zero, numbers)) or modes.get_default_dtype()


def _combined(strong: DType | None, weak: DType | None) -> DType | None:
    """What stays of two categories: the stronger unless the weaker is of a higher kind."""
    if strong is None or weak is None:
        return strong or weak
    if strong.is_complex:
        return strong
    if strong.is_floating_point:
        return strong.to_complex() if weak.is_complex else strong
    if strong is dtypes.bool_ or weak.category > dtypes.INTEGRAL:
        return dtypes.promote_types(strong, weak)
    return strong


def floated(dtype: DType) -> DType:
    """The dtype, or the default one in place of an integer or bool."""
    return dtype if dtype.category >= dtypes.FLOAT else modes.get_default_dtype()


def not_implemented(name: str, dtype: DType) -> NotImplementedError:
    """PyTorch's error for a dtype that an op does not take."""
    return NotImplementedError(f"\"{name}\" not implemented for '{dtype.title}'")


# autocast


def autocast(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """The arguments as the active autocast block wants them for this op."""
    state = modes.state
    if not state.autocast:
        return values
    for kind, (enabled, dtype) in state.autocast.items():
        if not enabled:
            continue
        tensors = [t for v in values for t in _tensors_of(v) if t._array.spec.device.type == kind]
        if not any(t._array.spec.dtype.is_floating_point for t in tensors):
            continue
        rules = LISTS[kind]
        check(name not in rules.refused, RuntimeError, rules.refused.get(name, ""))
        if name in rules.lower:
            target = dtype
        elif name in rules.float32:
            target = dtypes.float32
        elif name in rules.promote:
            target = _widest(tensors)
        else:
            continue
        return [_cast_tree(v, target, kind, name in rules.lower) for v in values]
    return values


def _widest(tensors: list[Tensor]) -> DType:
    found = tensors[0]._array.spec.dtype
    for tensor in tensors:
        if tensor._array.spec.dtype.is_floating_point:
            found = tensor._array.spec.dtype if not found.is_floating_point else found
            found = dtypes.promote_types(found, tensor._array.spec.dtype)
    return found


def _cast_tree(value: Any, target: DType, kind: str, lower: bool) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_cast_tree(v, target, kind, lower) for v in value)
    if not isinstance(value, Tensor):
        return value
    spec = value._array.spec
    eligible = (
        spec.dtype.is_floating_point
        and spec.dtype is not dtypes.float64
        and spec.device.type == kind
    )
    if not eligible or spec.dtype is target:
        return value
    cache = modes.state.autocast_cache
    if not (
        lower
        and cache is not None
        and value._requires_grad
        and value._grad_fn is None
        and value._base is None
    ):
        return _uncast(value, target)
    entry = cache.get((id(value), target))
    if entry is None or entry[0] is not value or entry[1] != value._version:
        cast = _uncast(value, target)
        entry = cache[id(value), target] = (value, value._version, cast)
    return entry[2]


def _uncast(value: Any, target: DType) -> Any:
    return value.to(target)


# overrides


def overridden(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any], classes: bool = True
) -> Any:
    """The result of the `__torch_function__` that wants this call; NotImplemented if none does.
    Without `classes` only modes are asked."""
    state = modes.state
    asks_mode = bool(state.functions) and not state.modes_off
    if state.functions_off and not asks_mode:
        return _by_layout(function, args, kwargs)
    asks_classes = classes and not state.functions_off
    types = _override_types(args, kwargs) if asks_classes else []
    if asks_mode:
        mode = state.functions[-1]
        before = state.functions
        state.functions = before[:-1]
        try:
            result = mode.__torch_function__(function, tuple(types), tuple(args), kwargs)
        finally:
            state.functions = before
        if result is not NotImplemented:
            return result
    for kind in types:
        result = kind.__torch_function__(function, tuple(types), tuple(args), kwargs)
        if result is not NotImplemented:
            return result
    if types or asks_mode:
        raise _no_answer(function, types, mode if asks_mode else None)
    return _by_layout(function, args, kwargs)


above: list[Any] = []  # func/: what a transform in force makes of a call
layouts: list[Any] = []  # ops/sparse_dispatch.py: who runs ops on sparse tensors


def _by_layout(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an op gives for tensors of another layout than the dense one, or inside a transform, if
    those have their own way of running it."""
    if modes.state.levels:
        found = above[0](function, args, kwargs)
        if found is not NotImplemented:
            return found
    return layouts[0](function, args, kwargs) if layouts else NotImplemented


def _no_answer(function: Any, types: list[Any], mode: Any) -> TypeError:
    """The error for a function that every override declined."""
    name = public_name[0](function)
    asked = [] if mode is None else [f"  - mode object {mode!r}"]
    asked += [f"  - tensor subclass {kind}" for kind in types]
    listed = "\n".join(asked)
    return TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n{listed}\n\nNo implementation found for '{name}' on types that "
        f"implement __torch_function__: let one of them handle it, or return "
        f"super().__torch_function__(func, types, args, kwargs)"
    )


public_name: list[Callable[[Any], str]] = [lambda f: str(getattr(f, "__name__", f))]


def overridden_after_all(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call that failed is to be tried again, because an argument that is no tensor has an
    override: ops do not look for such arguments until there has been one."""
    if modes.SPECIAL[0] or not _override_types(args, kwargs):
        return False
    modes.SPECIAL[0] += 1  # from now on they look
    return True


def _override_types(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    pending = [*args, *kwargs.values()]
    while pending:
        value = pending.pop(0)
        if isinstance(value, (list, tuple)):
            pending.extend(value)
            continue
        kind = type(value)
        hook = getattr(kind, "__torch_function__", None)
        if hook is None or kind in found or getattr(kind, "_plain_function", False):
            continue
        if hook is not disabled_torch_function:
            subclass_at = next((i for i, k in enumerate(found) if issubclass(kind, k)), len(found))
            found.insert(subclass_at, kind)
    return found


# results


def is_differentiable(dtype: DType) -> bool:
    """Whether values of this dtype have gradients."""
    return dtype.category >= dtypes.FLOAT


def attach(node: Node, outputs: Sequence[Tensor]) -> None:
    """Make outputs results of a node."""
    for index, out in enumerate(outputs):
        if is_differentiable(out._array.spec.dtype):
            out._grad_fn, out._output_nr, out._requires_grad = node, index, True


def edges_of(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Where gradients of these inputs go; no edge for what is not a differentiable tensor."""
    return tuple(
        edge_of(t) if isinstance(t, Tensor) and is_differentiable(t._array.spec.dtype) else NO_EDGE
        for t in tensors
    )


def unbroadcast(grad: Any, spec: Spec) -> Any:
    """A gradient summed over the dims along which its input was broadcast, in the input's dtype."""
    if grad._array.spec.shape != spec.shape:
        grad = grad.sum_to_size(spec.shape)
    found = grad._array.spec.dtype
    if found is not spec.dtype:
        if found.is_complex and not spec.dtype.is_complex:
            grad = grad.real
        grad = grad.to(spec.dtype)
    return grad


class RuleNode(Node):
    """A recorded op whose gradient is a rule over tensors: what the rule's parameters name is what
    it saves."""

    __slots__ = ("op", "saved", "specs", "values")

    def __init__(
        self, op: Any, values: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Tensor]
    ):
        edges: list[Any] = []
        specs: list[Spec | None] = []
        for tensor in inputs:
            spec = tensor._array.spec if isinstance(tensor, Tensor) else None
            specs.append(spec)
            leads = spec is not None and spec.dtype.category >= dtypes.FLOAT
            edges.append(edge_of(tensor) if leads else NO_EDGE)
        super().__init__(tuple(edges), tuple([o._array.spec for o in outputs]))
        self.op, self.specs = op, specs
        known: dict[str, Any] = {}
        for name, position in op.rule_reads:
            if position is None:  # the result
                made = list(enumerate(outputs))[op.saved_results]
                known[name] = [self._save(o, i) for i, o in made]
                continue
            value = values[position]
            if name.endswith("_spec"):
                known[name] = _spec_tree(value)
            elif isinstance(value, Tensor):
                known[name] = Saved(value)
            elif isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
                known[name] = [Saved(v) if isinstance(v, Tensor) else v for v in value]
            else:
                known[name] = value
        self.values: dict[str, Any] = known

    @staticmethod
    def _save(out: Tensor, index: int) -> Saved:
        saved = Saved(out, is_output=True)
        saved.output_nr = index
        return saved

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Run the rule."""
        op = self.op
        arguments: dict[str, Any] = {}
        for name, value in self.values.items():
            if type(value) is Saved:
                arguments[name] = value.unpack(self)
            elif type(value) is list and any(isinstance(v, Saved) for v in value):
                unpacked = [v.unpack(self) if isinstance(v, Saved) else v for v in value]
                arguments[name] = unpacked if name != "result" or len(unpacked) > 1 else unpacked[0]
            else:
                arguments[name] = value
        if op.rule_asks:
            arguments["needs"] = tuple([edge[0] is not None for edge in self.edges])
        found = op.grad(grads[0] if len(grads) == 1 else tuple(grads), **arguments)
        if not isinstance(found, (tuple, list)):
            found = (found,)
        flat: list[Any] = []
        for part in found:
            flat.extend(part) if isinstance(part, (tuple, list)) else flat.append(part)
        results: list[Any] = []
        for g, spec, edge in zip(flat, self.specs, self.edges, strict=True):
            if g is None or spec is None or edge[0] is None:
                results.append(None)
                continue
            if g._array.spec is not spec:
                g = unbroadcast(g, spec)
            results.append(linked(g, edge, spec) if op.flat else g)
        return tuple(results)

    def release(self) -> None:
        """Forget saved tensors."""
        for value in self.values.values():
            if type(value) is Saved:
                value.release()
            elif type(value) is list:
                for saved in value:
                    if isinstance(saved, Saved):
                        saved.release()


def _spec_tree(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array.spec
    return type(value)(map(_spec_tree, value)) if isinstance(value, (tuple, list)) else value


def hashable(value: Any) -> Any:
    """An argument as part of a plan's key: specs for tensors, tuples for lists."""
    if isinstance(value, Tensor):
        return value._array.spec
    if isinstance(value, (list, tuple)):
        return (type(value) is list, *map(hashable, value))
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, np.ndarray):
        return ("ndarray", value.tobytes(), value.shape)
    return (type(value), value) if isinstance(value, NUMBERS) else value


def as_number(value: Any) -> Any:
    """A NumPy scalar as the Python number it is; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value
