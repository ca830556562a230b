"""The ops that TorchScript source calls, by their names: numbers and containers in Python, tensors
by Ember's functions."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from ember.core import modes
from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.errors import check
from ember.jit._async import fork, wait
from ember.jit.archive_types import CODES
from ember.jit.tensor_ops import TENSOR_OPS

NUMBERS = (bool, int, float, complex)


def subscript(owner: Any, index: Any) -> Any:
    """An element of a list, tuple, dict, string or tensor."""
    check(
        isinstance(owner, (list, tuple, dict, str, Tensor)),
        TypeError,
        f"the archive takes an element of a {type(owner).__name__}",
    )
    return owner[index]


def _format(text: str, *values: Any) -> str:
    """Text with "{}" replaced by values; nothing else in braces has a meaning."""
    parts = text.split("{}")
    check(len(values) >= len(parts) - 1, RuntimeError, "Too few arguments for format string")
    return "".join(p + str(v) for p, v in zip(parts, (*values, ""), strict=False))


def _raise(message: str, kind: str = "builtins.RuntimeError") -> None:
    found = getattr(builtins, str(kind).rpartition(".")[2], RuntimeError)
    is_error = isinstance(found, type) and issubclass(found, Exception)
    raise (found if is_error else RuntimeError)(message)


def _slice(owner: Any, *rest: Any) -> Any:
    """`slice(list, start, end, step)`, or `slice(tensor, dim, start, end, step)`."""
    if not isinstance(owner, Tensor):
        return owner[slice(*(*rest, None, None, None)[:3])]
    dim, start, end, step = (*rest, *(0, None, None, 1)[len(rest) :])
    length = owner.size(dim)
    start, end, _ = slice(start, end).indices(length)
    index = [slice(None)] * owner.dim()
    index[dim] = slice(start, max(end, start), 1 if step is None else step)
    return owner[tuple(index)]


def _range_length(low: int, high: int, step: int) -> int:
    check(step != 0, RuntimeError, "range() arg 3 must not be zero")
    return len(range(low, high, step))


def _floor_or_tensor(a: Any, b: Any) -> Any:
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return a // b
    return _tensor_op("floor_divide")(a, b)


def _tensor_op(name: str) -> Callable[..., Any]:
    return TENSOR_OPS.find(name)


def _on_numbers(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """An op that is `plain` without tensors."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if args and not any(isinstance(a, Tensor) for a in args):
            return plain(*args)
        return _tensor_op(name)(*args, **kwargs)

    return run


def _sized(value: Any, dim: int | None = None) -> Any:
    return list(value.shape) if dim is None else value.size(dim)


def _set_item(owner: Any, key: Any, value: Any) -> Any:
    check(isinstance(owner, (list, dict)), TypeError, "an element is set in a list or dict")
    owner[key] = value
    return owner


def _delete(owner: Any, key: Any) -> None:
    check(isinstance(owner, (list, dict)), TypeError, "an element is deleted in a list or dict")
    del owner[key]


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: pick(args[0]) if len(args) == 1 else pick(*args)


def _not_tensor_sum(values: Any) -> Any:
    return sum(values)


def _split(value: Any, *args: Any) -> Any:
    if isinstance(value, str):
        return value.split(*args)
    return list(_tensor_op("split")(value, *args))


def _warn(message: str, stacklevel: int = 2) -> None:
    warnings.warn(message, stacklevel=2)


def _print(*values: Any) -> None:
    print(*values)  # noqa: T201 (the program prints)


def _to_number(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        return kind(value.item() if isinstance(value, Tensor) else value)

    return convert


def _wrapping_power(a: Any, b: Any) -> Any:
    return float(a) ** b if isinstance(a, int) and isinstance(b, int) and b < 0 else a**b


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "remainder": operator.mod,
    "pow": _wrapping_power,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sum": _not_tensor_sum,
    "all": all,
    "any": any,
    "fmod": math.fmod,
}
for (
    _name
) in "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh".split():
    _ARITHMETIC[_name] = getattr(math, _name)
for _name in "atan2 isnan isinf isfinite erf erfc gamma lgamma degrees radians copysign".split():
    _ARITHMETIC[_name] = getattr(math, _name)

_OWN: dict[str, Callable[..., Any]] = {
    name: _on_numbers(name, plain) for name, plain in _ARITHMETIC.items()
} | {
    "floordiv": _floor_or_tensor,
    "format": _format,
    "slice": _slice,
    "size": _sized,
    "dim": lambda value: value.dim(),
    "len": len,
    "append": lambda owner, value: owner.append(value) or owner,
    "extend": lambda owner, values: owner.extend(values),
    "insert": lambda owner, at, value: owner.insert(at, value),
    "pop": lambda owner, *rest: owner.pop(*rest),
    "clear": lambda owner: owner.clear(),
    "copy": lambda owner: owner.copy(),
    "keys": lambda owner: list(owner.keys()),
    "values": lambda owner: list(owner.values()) if isinstance(owner, dict) else owner.values(),
    "items": lambda owner: list(owner.items()),
    "get": lambda owner, *rest: owner.get(*rest),
    "update": lambda owner, other: owner.update(other),
    "setdefault": lambda owner, *rest: owner.setdefault(*rest),
    "popitem": lambda owner: owner.popitem(),
    "remove": lambda owner, value: owner.remove(value),
    "sorted": sorted,
    "list": list,
    "dict": dict,
    "ord": ord,
    "chr": chr,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "divmod": divmod,
    "_set_item": _set_item,
    "Delete": _delete,
    "__getitem__": subscript,
    "__contains__": lambda owner, value: value in owner,
    "__not__": operator.not_,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__range_length": _range_length,
    "__derive_index": lambda index, start, step: start + index * step,
    "Bool": _to_number(bool),
    "Int": _to_number(int),
    "Float": _to_number(float),
    "Complex": _to_number(complex),
    "IntImplicit": _to_number(int),
    "FloatImplicit": _to_number(float),
    "ScalarImplicit": lambda value: value.item(),
    "item": lambda value: value.item(),
    "device": lambda value, *rest: Device(value, *rest),
    "warn": _warn,
    "is_grad_enabled": modes.is_grad_enabled,
    "is_autocast_enabled": lambda kind="cuda": modes.autocast_state(kind)[0],
    "is_autocast_cpu_enabled": lambda: modes.autocast_state("cpu")[0],
    "set_grad_enabled": lambda enabled: modes.set_grad_enabled(enabled) and None,
    "is_scripting": lambda: True,
    "split": _split,
    "wait": wait,
    "fork": fork,
    "unbind": lambda value, dim=0: list(value.unbind(dim)),
    "chunk": lambda value, *rest: list(value.chunk(*rest)),
    "isinstance": isinstance,
    "percentFormat": operator.mod,
}
for _name in (
    "lower upper strip lstrip rstrip join find rfind replace startswith endswith isdigit isalpha "
    "isalnum isspace isupper islower title capitalize center ljust rjust zfill splitlines "
    "partition rpartition swapcase casefold"
).split():
    _OWN[_name] = lambda owner, *rest, _name=_name: getattr(str, _name)(owner, *rest)


def _reverse_or_flip(owner: Any, *rest: Any) -> Any:
    return owner.reverse() if isinstance(owner, list) else _tensor_op("reverse")(owner, *rest)


def _sort(owner: Any, *rest: Any, **named: Any) -> Any:
    if isinstance(owner, list):
        return owner.sort(reverse=bool(rest and rest[0]))
    return _tensor_op("sort")(owner, *rest, **named)


def _index(owner: Any, *rest: Any) -> Any:
    """`index(list, value)`, or `index(tensor, [tensor or None, ...])`."""
    if isinstance(owner, (list, str)):
        return owner.index(*rest)
    return owner[tuple(slice(None) if part is None else part for part in rest[0])]


def _count(owner: Any, value: Any) -> int:
    return int(owner.count(value))


_OWN |= {"reverse": _reverse_or_flip, "sort": _sort, "index": _index, "count": _count}

_PRIM: dict[str, Callable[..., Any]] = {
    "RaiseException": _raise,
    "NumToTensor": lambda value: NAMESPACES["torch"]["tensor"](value),
    "dtype": lambda value: CODES[value.dtype],
    "device": lambda value: value.device,
    "layout": lambda value: 0,
    "data": lambda value: value.data,
    "grad": lambda value: value.grad,
    "requires_grad": lambda value: value.requires_grad,
    "is_cuda": lambda value: value.is_cuda,
    "is_cpu": lambda value: value.device.type == "cpu",
    "is_meta": lambda value: value.is_meta,
    "is_leaf": lambda value: value.is_leaf,
    "shape": _sized,
    "ndim": lambda value: value.dim(),
    "itemsize": lambda value: value.itemsize,
    "T": lambda value: value.T,
    "mT": lambda value: value.mT,
    "H": lambda value: value.H,
    "mH": lambda value: value.mH,
    "type": lambda value: value.type,
    "min": _extreme(min),
    "max": _extreme(max),
    "abs": abs,
    "rangelist": lambda count: list(range(count)),
    "tolist": lambda value, *rest: value.tolist(),
    "unchecked_unwrap_optional": lambda value: value,
    "name": lambda value: value.name,
    "value": lambda value: value.value,
    "Print": _print,
}
for (
    _name
) in "sparse quantized nested mkldnn xla xpu mps ipu vulkan maia mtia ort sparse_csr".split():
    _PRIM[f"is_{_name}"] = lambda value: False  # kinds of tensors that there are none of


class _Table:
    """Finds what a dotted name of an op means."""

    def find(self, parts: list[str]) -> Callable[..., Any]:
        """The function of `torch.add`, `ops.aten.add`, `ops.prim.dtype`, ...;
        NotImplementedError if there is none."""
        name = parts[-1]
        if parts[0] == "ops" and parts[1:2] == ["prim"] and name in _PRIM:
            return _PRIM[name]
        if parts[0] in ("torch", "aten") or parts[:2] == ["ops", "aten"] or name not in _PRIM:
            if len(parts) <= 3 and name in _OWN:
                return _OWN[name]
            return TENSOR_OPS.find(name)
        return _PRIM[name]


OPS = _Table()
NAMES: dict[str, Any] = {
    "range": range,
    "int": _to_number(int),
    "float": _to_number(float),
    "bool": _to_number(bool),
    "complex": _to_number(complex),
    "str": str,
    "print": _print,
    "inf": math.inf,
    "infj": complex(0, math.inf),
    "nan": math.nan,
    "hasattr": lambda owner, name: not str(name).startswith("__") and hasattr(owner, name),
    "type:int": int,
    "type:float": float,
    "type:bool": bool,
    "type:str": str,
    "type:complex": complex,
    "type:Tensor": Tensor,
    "type:List": list,
    "type:Dict": dict,
    "type:Tuple": tuple,
    "type:NoneType": type(None),
}
