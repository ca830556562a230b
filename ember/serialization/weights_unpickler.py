"""An interpreter of pickles that makes tensors and plain containers, and runs nothing else.

It knows the opcodes that data need, looks names up in a list, and calls only what is on it. Lengths
are checked against what is left of the file before memory is taken. The opcodes are those of
Python's `pickletools`.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.serialization.allowed_globals import (
    BLOCKED_MODULES,
    allowed_global,
    shown_name,
    user_allowed,
)
from ember.serialization.names import find_global

HIGHEST_PROTOCOL = 5
_MARK = object()  # on the stack, where a tuple or a list of items begins
OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # names of Python 2


class UnsafeGlobal(UnpicklingError):
    """A file uses a name that is not allowed."""


class BrokenPickle(UnpicklingError):
    """The opcodes do not make sense."""


class WeightsUnpickler:
    """Reads one pickle from a seekable file, from where it is.

    `persistent_load` turns the ids of storages into storages. UnpicklingError for anything that is
    not plain data, EOFError for a pickle that is cut off.
    """

    def __init__(self, file: Any, persistent_load: Callable[[Any], Any] | None = None):
        self._file = file
        self._load_persistent = persistent_load
        self.failure: BaseException | None = None  # of `persistent_load`, which is not the file's
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._callable: set[int] = set()  # ids of what came from the list and may be called
        here = file.tell()
        self._end = file.seek(0, io.SEEK_END)
        file.seek(here)

    def load(self) -> Any:
        """The object in the pickle."""
        while True:
            opcode = self._read(1)
            if opcode == pickle.STOP:
                return self._pop()
            action = _ACTIONS.get(opcode)
            if action is None:
                raise UnpicklingError(
                    f"Unsupported operand {opcode[0]}: a file of weights has no use for it"
                )
            action(self)

    # the bytes

    def _read(self, count: int) -> bytes:
        if count > 4096 and count > self._end - self._file.tell():
            raise EOFError(f"the file ends before the {count} bytes that it announces")
        data: bytes = self._file.read(count)
        if len(data) < count:
            raise EOFError("Ran out of input: the file is cut off")
        return data

    def _number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self._read(layout.size))[0]

    def _line(self) -> str:
        line: bytes = self._file.readline(4096)
        if not line.endswith(b"\n"):
            raise EOFError("Ran out of input: a name in the file has no end")
        return line[:-1].decode("utf-8")

    # the stack

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise BrokenPickle("unexpected MARK found or empty stack")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise BrokenPickle("unexpected MARK found or empty stack")
        return self._stack[-1]

    def _items(self) -> list[Any]:
        """What lies above the last mark, which goes too."""
        for position in range(len(self._stack) - 1, -1, -1):
            if self._stack[position] is _MARK:
                items = self._stack[position + 1 :]
                del self._stack[position:]
                return items
        raise BrokenPickle("no MARK on the stack")

    # names

    def _find(self, module: str, name: str) -> None:
        module = OLD_MODULES.get(module, module)
        full = f"{module}.{name}"
        if module.partition(".")[0] in BLOCKED_MODULES:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        found = allowed_global(module, name)
        if found is None:
            shown = shown_name(full)
            raise UnsafeGlobal(
                f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please "
                f"use `torch.serialization.add_safe_globals([{shown}])` or the "
                f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this "
                "global if you trust this class/function."
            )
        thing, may_be_called = found
        if may_be_called:
            self._callable.add(id(thing))
        self._push(thing)

    def _find_named_by_line(self) -> None:
        module = self._line()
        self._find(module, self._line())

    def _find_named_on_stack(self) -> None:
        name, module = self._pop(), self._pop()
        check(
            isinstance(name, str) and isinstance(module, str),
            BrokenPickle,
            "STACK_GLOBAL requires str",
        )
        self._find(module, name)

    # making things

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        check(
            id(function) in self._callable and isinstance(arguments, tuple),
            UnpicklingError,
            lambda: f"Trying to call reduce for unrecognized function {function!r}",
        )
        self._push(function(*arguments))

    def _new_object(self) -> None:
        arguments, cls = self._pop(), self._pop()
        plain = id(cls) in self._callable and cls in (OrderedDict, set, complex)
        tensors = bool(arguments) and isinstance(arguments[0], Tensor)
        if plain or (tensors and cls is find_global("torch.nn.parameter", "Parameter")):
            self._push(cls(*arguments))
        elif isinstance(cls, type) and user_allowed(cls):
            self._push(cls.__new__(cls, *arguments))
        else:
            raise UnpicklingError(f"Trying to instantiate unrecognized class {cls!r}")

    def _build(self) -> None:
        state, target = self._pop(), self._top()
        kind = type(target)
        if kind is OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)  # the `_metadata` of a state dict
        elif user_allowed(kind):
            self._set_state(target, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {kind}"
            )

    @staticmethod
    def _set_state(target: Any, state: Any) -> None:
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if attributes:
            target.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            setattr(target, name, value)

    def _persistent(self) -> None:
        identifier = self._pop()
        check(
            self._load_persistent is not None
            and isinstance(identifier, tuple)
            and bool(identifier)
            and identifier[0] == "storage",
            UnpicklingError,
            lambda: f"Only persistent_load of storage is allowed, but got {identifier!r}",
        )
        assert self._load_persistent is not None
        try:
            self._push(self._load_persistent(identifier))
        except Exception as error:
            self.failure = error
            raise

    # containers and memo

    def _append(self) -> None:
        value = self._pop()
        self._list().append(value)

    def _appends(self) -> None:
        items = self._items()
        self._list().extend(items)

    def _list(self) -> Any:
        target = self._top()
        check(
            type(target) is list or user_allowed(type(target)),
            UnpicklingError,
            lambda: f"Can only append to lists, but got {type(target)}",
        )
        return target

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._dict()[key] = value

    def _set_items(self) -> None:
        items = self._items()
        target = self._dict()
        check(len(items) % 2 == 0, BrokenPickle, "a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def _dict(self) -> Any:
        target = self._top()
        check(
            isinstance(target, dict) or user_allowed(type(target)),
            UnpicklingError,
            lambda: f"Can only set items of dicts, but got {type(target)}",
        )
        return target

    def _add_items(self) -> None:
        items = self._items()
        target = self._top()
        check(type(target) is set, UnpicklingError, "Can only add items to sets")
        target.update(items)

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    def _get(self, key: int) -> None:
        check(key in self._memo, BrokenPickle, f"Memo value not found at index {key}")
        self._push(self._memo[key])

    def _put(self, key: int) -> None:
        self._memo[key] = self._top()

    def _protocol(self) -> None:
        version = self._read(1)[0]
        check(
            version <= HIGHEST_PROTOCOL,
            UnpicklingError,
            f"unsupported pickle protocol: {version}",
        )

    def _text(self, length: struct.Struct) -> None:
        self._push(str(self._read(self._number(length)), "utf-8", "surrogatepass"))

    def _text_of_python2(self, length: struct.Struct) -> None:
        self._push(str(self._read(self._number(length)), "utf-8"))

    def _binary(self, length: struct.Struct) -> None:
        self._push(self._read(self._number(length)))

    def _long(self, length: struct.Struct) -> None:
        self._push(pickle.decode_long(self._read(self._number(length))))


_U1, _U2, _U4, _U8 = (struct.Struct(layout) for layout in ("<B", "<H", "<I", "<Q"))
_I4, _DOUBLE = struct.Struct("<i"), struct.Struct(">d")
_Action = Callable[[WeightsUnpickler], None]
_W = WeightsUnpickler
_ACTIONS: dict[bytes, _Action] = {
    pickle.PROTO: _W._protocol,
    pickle.FRAME: lambda u: u._number(_U8),
    pickle.GLOBAL: _W._find_named_by_line,
    pickle.STACK_GLOBAL: _W._find_named_on_stack,
    pickle.REDUCE: lambda u: u._reduce(),  # these three a subclass may do otherwise
    pickle.NEWOBJ: lambda u: u._new_object(),
    pickle.BUILD: lambda u: u._build(),
    pickle.BINPERSID: _W._persistent,
    pickle.MARK: lambda u: u._push(_MARK),
    pickle.POP: lambda u: u._stack.pop(),
    pickle.POP_MARK: lambda u: u._items(),
    pickle.NONE: lambda u: u._push(None),
    pickle.NEWTRUE: lambda u: u._push(True),
    pickle.NEWFALSE: lambda u: u._push(False),
    pickle.BININT: lambda u: u._push(u._number(_I4)),
    pickle.BININT1: lambda u: u._push(u._number(_U1)),
    pickle.BININT2: lambda u: u._push(u._number(_U2)),
    pickle.LONG1: lambda u: u._long(_U1),
    pickle.LONG4: lambda u: u._long(_U4),
    pickle.BINFLOAT: lambda u: u._push(u._number(_DOUBLE)),
    pickle.SHORT_BINUNICODE: lambda u: u._text(_U1),
    pickle.BINUNICODE: lambda u: u._text(_U4),
    pickle.BINUNICODE8: lambda u: u._text(_U8),
    pickle.SHORT_BINSTRING: lambda u: u._text_of_python2(_U1),
    pickle.BINSTRING: lambda u: u._text_of_python2(_U4),
    pickle.SHORT_BINBYTES: lambda u: u._binary(_U1),
    pickle.BINBYTES: lambda u: u._binary(_U4),
    pickle.BINBYTES8: lambda u: u._binary(_U8),
    pickle.BYTEARRAY8: lambda u: u._push(bytearray(u._read(u._number(_U8)))),
    pickle.EMPTY_TUPLE: lambda u: u._push(()),
    pickle.EMPTY_LIST: lambda u: u._push([]),
    pickle.EMPTY_DICT: lambda u: u._push({}),
    pickle.EMPTY_SET: lambda u: u._push(set()),
    pickle.TUPLE: lambda u: u._push(tuple(u._items())),
    pickle.TUPLE1: lambda u: u._tuple(1),
    pickle.TUPLE2: lambda u: u._tuple(2),
    pickle.TUPLE3: lambda u: u._tuple(3),
    pickle.LIST: lambda u: u._push(u._items()),
    pickle.APPEND: _W._append,
    pickle.APPENDS: _W._appends,
    pickle.SETITEM: _W._set_item,
    pickle.SETITEMS: _W._set_items,
    pickle.ADDITEMS: _W._add_items,
    pickle.FROZENSET: lambda u: u._push(frozenset(u._items())),
    pickle.BINGET: lambda u: u._get(u._number(_U1)),
    pickle.LONG_BINGET: lambda u: u._get(u._number(_U4)),
    pickle.BINPUT: lambda u: u._put(u._number(_U1)),
    pickle.LONG_BINPUT: lambda u: u._put(u._number(_U4)),
    pickle.MEMOIZE: lambda u: u._put(len(u._memo)),
}


def load_weights(file: Any, persistent_load: Callable[[Any], Any] | None = None) -> Any:
    """The next pickle of a file, as data. UnpicklingError says what to do about a refusal."""
    unpickler = WeightsUnpickler(file, persistent_load)
    try:
        return unpickler.load()
    except BrokenPickle as error:
        raise UnpicklingError(_broken(str(error))) from None
    except UnpicklingError as error:
        raise UnpicklingError(_refusal(str(error), isinstance(error, UnsafeGlobal))) from None
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, struct.error) as error:
        if error is unpickler.failure:
            raise
        raise UnpicklingError(_broken(f"{type(error).__name__}: {error}")) from error


def _broken(reason: str) -> str:
    return (
        f"Weights only load failed. The pickle makes no sense ({reason}): the file is corrupted, "
        "or is not one of torch.save"
    )


def _refusal(reason: str, may_be_allowed: bool) -> str:
    trust = (
        "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it "
        "can result in arbitrary code execution. Do it only if you got the file from a trusted "
        "source."
    )
    if not may_be_allowed:
        return f"Weights only load failed. {trust}\nWeightsUnpickler error: {reason}"
    return (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "do those steps only if you trust the source of the checkpoint. \n"
        f"\t(1) {trust}\n"
        "\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps "
        "in the following error message.\n"
        f"\tWeightsUnpickler error: {reason}"
    )
