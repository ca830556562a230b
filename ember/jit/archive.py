"""`torch.jit.load`: archives that PyTorch saved, read and interpreted.

An archive is a ZIP file: `data.pkl` holds the module's objects, `constants.pkl` the tensors that
the code names, `code/` one file of Python-like source for each module of classes, `data/` and
`constants/` the numbers. None of the source is executed: ember/jit/interpreting.py reads it.
"""

from __future__ import annotations

import ast
import io
import os
from collections import namedtuple
from enum import Enum
from typing import Any

from ember.core.storages import UntypedStorage
from ember.errors import check
from ember.jit.interpreting import Compiler, dotted
from ember.jit.loaded import LoadedModule, ScriptObject
from ember.serialization import legacy
from ember.serialization.location import restorer_of
from ember.serialization.weights_unpickler import WeightsUnpickler
from ember.serialization.zip_format import ZipReader

ALLOWED_SPECIAL = ("__init__", "__len__", "__enter__", "__exit__", "__contains__", "__getitem__")


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> Any:
    """The module in a TorchScript archive (`torch.jit.save` of PyTorch): a path or a file.

    Its code is interpreted with Ember's ops, so results, gradients and devices are as usual; the
    code of an archive is never given to Python, and can do nothing but compute. `_extra_files`: a
    dict whose keys are names of further files in the archive; their contents are put in.

    ValueError if the file does not exist, RuntimeError if it is no archive, NotImplementedError
    where the code uses an op or a construct that is missing, when it is reached.
    """
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        check(os.path.exists(path), ValueError, f"The provided filename {path} does not exist")
        check(not os.path.isdir(path), ValueError, f"The provided filename {path} is a directory")
        with open(path, "rb") as file:
            content = io.BytesIO(file.read())
    else:
        content = io.BytesIO(f.read())
    archive = Archive(ZipReader(content, program=True), map_location)
    for name in _extra_files or ():
        _extra_files[name] = archive.zip.read(f"extra/{name}")
    module = archive.read_pickle("data.pkl", "data")
    check(isinstance(module, LoadedModule), RuntimeError, "the archive's data.pkl holds no module")
    return module


class Archive:
    """An open archive: its classes, functions and constants, each made at its first use."""

    def __init__(self, reader: ZipReader, map_location: Any):
        self.zip = reader
        self._restore = restorer_of(map_location)
        self._files: dict[str, dict[str, ast.stmt]] = {}
        self._things: dict[tuple[str, str], Any] = {}
        self._constants: list[Any] | None = None
        self._sources: dict[str, str] = {}
        self.compiler = Compiler(self.resolve)

    # names of the source

    def resolve(self, parts: list[str]) -> Any:
        """What a name that begins with `__torch__` or `CONSTANTS` means."""
        if parts[0] == "CONSTANTS":
            if self._constants is None:
                self._constants = list(self.read_pickle("constants.pkl", "constants"))
            return self._constants[int(parts[1].removeprefix("c"))]
        for split in range(len(parts) - 1, 0, -1):
            file = "/".join(parts[:split])
            if self.zip.has(f"code/{file}.py"):
                found = self.thing(file, parts[split])
                for name in parts[split + 1 :]:
                    found = self._member(found, name)
                return found
        raise NameError(f"the archive has no {'.'.join(parts)}")

    @staticmethod
    def _member(owner: Any, name: str) -> Any:
        if isinstance(owner, type) and issubclass(owner, Enum):
            return owner[name]
        if isinstance(owner, type) and name == "__new__":
            return lambda cls: object.__new__(cls)
        found = getattr(owner, "_methods", {}).get(name)
        check(found is not None, NameError, f"the archive uses {name} of {owner!r}")
        return found

    def thing(self, file: str, name: str) -> Any:
        """A class or function of one source file."""
        if (file, name) not in self._things:
            if file not in self._files:
                text = bytes(self.zip.read(f"code/{file}.py")).decode()
                self._sources[file] = text
                self._files[file] = {
                    node.name: node
                    for node in ast.parse(text).body
                    if isinstance(node, (ast.ClassDef, ast.FunctionDef))
                }
            node = self._files[file].get(name)
            check(node is not None, NameError, f"code/{file}.py of the archive has no {name}")
            if isinstance(node, ast.FunctionDef):
                self._things[file, name] = self.compiler.function(node)
            elif isinstance(node, ast.ClassDef):
                self._things[file, name] = self._class(node, file)
        return self._things[file, name]

    def _class(self, node: ast.ClassDef, file: str) -> type:
        bases = [(dotted(base) or [""])[-1] for base in node.bases]
        if bases == ["NamedTuple"]:
            return self._named_tuple(node)
        if bases == ["Enum"]:
            members = {
                stmt.targets[0].id: self.compiler.expression(stmt.value)({})
                for stmt in node.body
                if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name)
            }
            return Enum(node.name, members)
        is_module = bases == ["Module"]
        check(is_module or not bases, NotImplementedError, f"a class of an archive that is {bases}")
        methods = {
            stmt.name: self.compiler.function(
                stmt, ast.get_source_segment(self._sources[file], stmt) or ""
            )
            for stmt in node.body
            if isinstance(stmt, ast.FunctionDef)
        }
        unknown = [n for n in methods if n.startswith("__") and n not in ALLOWED_SPECIAL]
        check(not unknown, NotImplementedError, f"methods {unknown} in an archive")
        if not is_module:
            return type(node.name, (ScriptObject,), {"_methods": methods})
        return self._module_class(node, methods)

    def _module_class(self, node: ast.ClassDef, methods: dict[str, Any]) -> type:
        members: dict[str, Any] = {n: m for n, m in methods.items() if n != "__init__"}
        if "forward" not in members and "forward__0" in members:
            members["forward"] = members["forward__0"]  # an overload: that for plain tensors
        for stmt in node.body:
            if isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
                if isinstance(stmt.target, ast.Name) and not stmt.target.id.startswith("__"):
                    members[stmt.target.id] = self.compiler.expression(stmt.value)({})
            elif isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
                if stmt.targets[0].id in ("__parameters__", "__buffers__"):
                    names = frozenset(ast.literal_eval(stmt.value))
                    members[f"_declared_{stmt.targets[0].id.strip('_')}"] = names
        members["_script_name"] = node.name
        return type("RecursiveScriptModule", (LoadedModule,), members)

    def _named_tuple(self, node: ast.ClassDef) -> type:
        fields = [
            stmt.target.id
            for stmt in node.body
            if isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name)
        ]
        return namedtuple(node.name, fields)  # type: ignore[return-value]

    def records(self) -> list[Any]:
        """The named tuples and enumerations of the archive that were asked for so far."""
        return [
            thing
            for thing in self._things.values()
            if isinstance(thing, type) and issubclass(thing, (tuple, Enum))
        ]

    # objects

    def read_pickle(self, record: str, folder: str) -> Any:
        """The object of a pickle, whose numbers lie in `folder`; only data and the archive's own
        classes are made."""
        foreign = self.zip.is_foreign_order()
        known: dict[str, UntypedStorage] = {}

        def storage_of(identity: Any) -> Any:
            check(len(identity) == 5, RuntimeError, "a storage is named by five values")
            label, key, location, count = identity[1:]
            dtype = legacy.dtype_of_label(label)
            if key not in known:
                nbytes = count * (1 if dtype is None else dtype.itemsize)
                values = self.zip.array(f"{folder}/{key}", nbytes)
                if foreign and dtype is not None:
                    values = values.view(dtype.numpy).byteswap().view("uint8")
                storage = legacy.new_storage(values)
                known[key] = legacy.untyped_result(self._restore(storage, location))
            return legacy.with_dtype(known[key], dtype)

        data = io.BytesIO(self.zip.read(record))
        return _ObjectUnpickler(data, storage_of, self).load()


def _as_list(values: Any, *rest: Any) -> list[Any]:
    return list(values)


def _tagged(value: Any, *rest: Any) -> Any:
    return value


class _ObjectUnpickler(WeightsUnpickler):
    """Reads the pickles of an archive: data, and objects of the archive's classes."""

    def __init__(self, file: Any, persistent_load: Any, archive: Archive):
        super().__init__(file, persistent_load)
        self._archive = archive
        self._lists = {"restore_type_tag": _tagged} | {
            f"build_{kind}list": _as_list for kind in ("int", "tensor", "double", "bool")
        }

    def _find(self, module: str, name: str) -> None:
        if module.partition(".")[0] == "__torch__":
            self._push(self._archive.resolve([*module.split("."), name]))
        elif module == "torch.jit._pickle" and name in self._lists:
            self._callable.add(id(self._lists[name]))
            self._push(self._lists[name])
        else:
            super()._find(module, name)

    def _reduce(self) -> None:
        arguments, function = self._stack[-1], self._stack[-2]
        if any(function is thing for thing in self._archive.records()):
            del self._stack[-2:]
            self._push(function(*(arguments if isinstance(arguments, tuple) else (arguments,))))
        else:
            super()._reduce()

    def _new_object(self) -> None:
        cls = self._stack[-2]
        if isinstance(cls, type) and issubclass(cls, (LoadedModule, ScriptObject)):
            del self._stack[-2:]
            made = object.__new__(cls)
            if isinstance(made, LoadedModule):
                made._begin()
            self._push(made)
        else:
            super()._new_object()

    def _build(self) -> None:
        state, target = self._stack[-1], self._stack[-2]
        if isinstance(target, (LoadedModule, ScriptObject)):
            self._pop()
            check(isinstance(state, dict), RuntimeError, "the state of an object is a dict")
            if isinstance(target, LoadedModule):
                target._set_loaded_state(state)
            else:
                target.__dict__.update(state)
        else:
            super()._build()
