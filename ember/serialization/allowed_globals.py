"""Which names a file may use when only weights are wanted, and how to allow more."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.dtypes import ALL
from ember.errors import check
from ember.layout import Size
from ember.serialization.names import find_global, name_in_files, storage_dtype
from ember.serialization.pickling import (
    _rebuild_from_type_v2,
    _rebuild_meta_tensor_no_storage,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    is_internal,
)

BLOCKED_MODULES = frozenset({"sys", "os", "posix", "nt"})


class StorageType:
    """A storage class as a file names it: a label, which cannot be called."""

    def __init__(self, name: str):
        self.name = name
        self.dtype = storage_dtype(name)

    def __repr__(self) -> str:
        return f"<storage type {self.name}>"


def encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes that Python 2 pickles write as text."""
    check(
        isinstance(text, str) and encoding in ("latin1", "latin-1", "utf-8"),
        TypeError,
        f"_codecs.encode may only be used on text, as latin1, in a file; got {encoding!r}",
    )
    return str(text).encode(encoding)


def made_bytearray(*args: Any) -> bytearray:
    """A bytearray from bytes or text, never from a size."""
    check(
        args == () or isinstance(args[0], bytes | str),
        TypeError,
        "a bytearray is made from bytes or text in a file",
    )
    return bytearray(*args)


def size_of(*args: Any) -> Size:
    """A `torch.Size`."""
    values = args[0] if args else ()
    check(
        isinstance(values, tuple | list) and all(isinstance(v, int) for v in values),
        TypeError,
        f"torch.Size holds integers, not {values!r}",
    )
    return Size(values)


def tensor_rebuilt(func: Any, new_type: Any, args: Any, state: Any) -> Tensor:
    """`_rebuild_from_type_v2` for a rebuilding function and a tensor class, and nothing else."""
    rebuilding = (_rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3)
    check(
        func in (*rebuilding, _rebuild_meta_tensor_no_storage, _rebuild_sparse_tensor)
        and isinstance(new_type, type)
        and issubclass(new_type, Tensor),
        TypeError,
        f"a file may not rebuild a {new_type!r} by {func!r}",
    )
    return _rebuild_from_type_v2(func, new_type, args, state)


def parameter_rebuilt(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    """A Parameter with attributes of the user's, none of which may be the tensor's own."""
    check(
        isinstance(state, dict) and not any(is_internal(str(name)) for name in state),
        TypeError,
        "a file may not set the inner attributes of a parameter",
    )
    rebuild = find_global("torch._utils", "_rebuild_parameter_with_state")
    return rebuild(data, bool(requires_grad), OrderedDict(), state)


_CALLABLES: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor_no_storage,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor,
    "torch._tensor._rebuild_from_type_v2": tensor_rebuilt,
    "torch._utils._rebuild_parameter_with_state": parameter_rebuilt,
    "torch.Size": size_of,
    "torch.device": Device,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.complex": complex,
    "builtins.bytearray": made_bytearray,
    "_codecs.encode": encode,
}
# Found at their first use: nn is a package beside this one.
_FOUND_LATER = ("torch._utils._rebuild_parameter", "torch.serialization._get_layout")
_VALUES: dict[str, Any] = {f"torch.{t.name}": t for t in ALL} | {"torch.Tensor": Tensor}

_user_globals: dict[str, Any] = {}


def allowed_global(module: str, name: str) -> tuple[Any, bool] | None:
    """What a file may have under a name, and whether it may be called; None if it is not
    allowed.
    """
    full = f"{module}.{name}"
    if full in _user_globals:
        return _user_globals[full], True
    if full in _CALLABLES:
        return _CALLABLES[full], True
    if full in _FOUND_LATER:
        return find_global(module, name), True
    if full in _VALUES:
        return _VALUES[full], False
    if full == "torch.nn.parameter.Parameter":
        return find_global(module, name), False
    bare = name if module in ("torch", "torch.cuda", "torch.storage") else ""
    if bare.endswith("Storage") and bare != "TypedStorage":
        try:
            return StorageType(bare), False
        except KeyError:
            return None
    return None


def global_name(thing: Any) -> str:
    """The name under which files have a thing."""
    return ".".join(name_in_files(thing.__module__, thing.__qualname__))


def shown_name(full: str) -> str:
    """A full name as messages show it: built-in ones without their module."""
    return full.removeprefix("builtins.")


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow classes and functions in files that are loaded with `weights_only=True`.

    Each is a class, a function, or a pair of one and its name in files. A class that is allowed may
    be made and given any state by a file: allow only what is safe so.

    >>> import ember as torch
    >>> class Point: pass
    >>> torch.serialization.add_safe_globals([Point])
    >>> Point in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    _user_globals.update(_named(safe_globals))


def _named(things: Iterable[Any]) -> dict[str, Any]:
    named = {}
    for thing in things:
        if isinstance(thing, tuple):
            check(
                len(thing) == 2 and isinstance(thing[1], str),
                ValueError,
                f"Expected tuple of (callable/class, str), but got {thing!r}",
            )
            named[thing[1]] = thing[0]
        else:
            named[global_name(thing)] = thing
    return named


def get_safe_globals() -> list[Any]:
    """What users have allowed."""
    return [
        thing if _own_name(thing) == name else (thing, name)
        for name, thing in _user_globals.items()
    ]


def _own_name(thing: Any) -> str:
    return global_name(thing) if hasattr(thing, "__qualname__") else ""


def clear_safe_globals() -> None:
    """Forget what users have allowed."""
    _user_globals.clear()


class safe_globals:
    """A block in which files may use more names; see `add_safe_globals`.

    >>> import ember as torch
    >>> class Point: pass
    >>> with torch.serialization.safe_globals([Point]):
    ...     len(torch.serialization.get_safe_globals())
    1
    """

    def __init__(self, safe_globals: Iterable[Any]):
        self.safe_globals = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_user_globals)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        _user_globals.clear()
        _user_globals.update(self._before)


def user_allowed(thing: Any) -> bool:
    """Whether a class or function is one that users have allowed."""
    return any(thing is allowed for allowed in _user_globals.values())
