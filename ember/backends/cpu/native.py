"""LLVM assembly becomes Python builtins, and stays on disk for the next process.

A module's `builtin` follows METH_FASTCALL: it takes Python objects and reads them itself, so a call
costs less than 0.1 microseconds.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from typing import Any

from ember.backends import kept
from ember.backends.cpu.forks import compiling
from ember.scalar.approximations import HAS_SCALING

METH_FASTCALL = 0x0080
SCALES = (22,)  # the LLVM from which on ldexp of vectors is one instruction with AVX-512

_builtins: dict[str, Callable[..., Any]] = {}
_alive: list[Any] = []  # compiled code and method definitions must outlive their functions
_host: dict[str, Any] = {}


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _host_facts() -> dict[str, Any]:
    if not _host:
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        _host.update(
            llvm=llvm,
            cpu=llvm.get_host_cpu_name(),
            features=features.flatten(),
            known=features,
            bytes=64 if features.get("avx512f") else 32 if features.get("avx2") else 16,
            version=f"{llvmlite.__version__} {llvm.llvm_version_info}",
        )
        HAS_SCALING[0] = bool(features.get("avx512f")) and llvm.llvm_version_info >= SCALES
    return _host


def vector_bytes() -> int:
    """How wide the host's vectors are: EMBER_VECTOR_BITS (512, 256 or 128) says otherwise."""
    forced = os.environ.get("EMBER_VECTOR_BITS")
    if forced in ("128", "256", "512"):
        return int(forced) // 8
    return int(_host_facts()["bytes"])


def has(feature: str) -> bool:
    """Whether the host has a feature, by LLVM's name."""
    return bool(_host_facts()["known"].get(feature))


def builtin(text: str) -> Callable[..., Any]:
    """The Python function that a module's `builtin` is; compiled once, and kept on disk."""
    found = _builtins.get(text)
    if found is None:
        importlib.import_module("ember.backends.cpu.allocator").install()  # it stands on this file
        address = _address(text)
        definition = _MethodDefinition(b"kernel", address, METH_FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        _alive.append(definition)
        found = _builtins[text] = make(ctypes.addressof(definition), None, None)
    return found


def _address(text: str) -> int:
    return functions(text, ["builtin"])[0]


def functions(text: str, names: list[str]) -> list[int]:
    """The addresses of a module's functions, which live as long as the process."""
    with compiling:
        return _compiled(text, names)


def _compiled(text: str, names: list[str]) -> list[int]:
    host = _host_facts()
    llvm = host["llvm"]
    width = vector_bytes() * 8
    options = f'attributes #0 = {{ "prefer-vector-width"="{width}" }}\n'
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=host["cpu"], features=host["features"], opt=2, jit=True
    )
    module = llvm.parse_assembly(text + options)
    engine = llvm.create_mcjit_compiler(module, machine)
    described = f"{host['version']} {host['cpu']} {host['features']} {width}\n{text}"
    path = kept.path_of("kernels", described, ".o")
    engine.set_object_cache(lambda _, code: kept.write(path, code), lambda _: kept.read(path))
    engine.finalize_object()
    _alive.append(engine)
    return [int(engine.get_function_address(name)) for name in names]
