"""Switches of the whole process: threads, determinism, precision of products; and names of
types."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ember.backends.cpu.threads import set_count
from ember.backends.cuda import PRECISIONS, matmul
from ember.core.factory import mark_uninitialised
from ember.core.tensor import Tensor
from ember.errors import check
from ember.source_lines import always

_threads: dict[str, Any] = {"count": None, "library": None}
_deterministic = {"enabled": False, "warn_only": False}
PREFIXES = ("scipy_openblas", "openblas")


def _openblas() -> Any:
    """(get, set) of the thread count of NumPy's OpenBLAS; None where NumPy has another library."""
    if _threads["library"] is None:
        _threads["library"] = False
        try:
            with open("/proc/self/maps") as maps:
                paths = {line.split()[-1] for line in maps if "openblas" in line}
        except OSError:
            paths = set()
        for path in sorted(paths):
            library = ctypes.CDLL(path)
            for prefix in PREFIXES:
                for suffix in ("64_", ""):
                    name = f"{prefix}_{{}}_num_threads{suffix}"
                    setter = getattr(library, name.format("set"), None)
                    getter = getattr(library, name.format("get"), None)
                    if setter is not None and getter is not None:
                        _threads["library"] = getter, setter
                        return _threads["library"]
    return _threads["library"] or None


def get_num_threads() -> int:
    """How many threads products of matrices use on the CPU."""
    found = _openblas()
    if found is not None:
        return int(found[0]())
    return int(_threads["count"] or os.cpu_count() or 1)


def set_num_threads(threads: int) -> None:
    """Let kernels and products of matrices use so many threads.

    RuntimeError unless it is a positive integer.

    >>> import ember as torch
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    """
    check(
        isinstance(threads, int) and not isinstance(threads, bool),
        TypeError,
        f"set_num_threads expects an int, but got {type(threads).__name__}",
    )
    check(threads > 0, RuntimeError, "set_num_threads expects a positive integer")
    _threads["count"] = threads
    set_count(threads)
    found = _openblas()
    if found is not None:
        found[1](threads)


def get_num_interop_threads() -> int:
    """How many threads run independent ops at the same time: one."""
    return 1


def set_num_interop_threads(threads: int) -> None:
    """Accepted for programs that bound their threads: Ember runs one op at a time, within any
    bound.

    RuntimeError unless it is a positive integer.
    """
    check(
        isinstance(threads, int) and not isinstance(threads, bool),
        TypeError,
        f"set_num_interop_threads expects an int, but got {type(threads).__name__}",
    )
    check(threads > 0, RuntimeError, "set_num_interop_threads expects a positive integer")


def set_flush_denormal(mode: bool) -> bool:
    """Whether the CPU now does what was asked. Ember always computes with denormal numbers, so
    False means that they will not be flushed to zero.

    >>> import ember as torch
    >>> torch.set_flush_denormal(True)
    False
    """
    return not mode


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for algorithms that give the same result each time; on the CPU and simulated GPUs all
    do."""
    _deterministic.update(enabled=bool(mode), warn_only=bool(warn_only))
    mark_uninitialised(deterministic=bool(mode))


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms was told."""
    return _deterministic["enabled"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether an op without a deterministic algorithm would only warn."""
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error": the same switch by another name."""
    modes: dict[Any, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    check(
        debug_mode in modes,
        RuntimeError,
        "invalid value of debug_mode, expected 0, 1, 2 or default, warn, error, but got "
        f"{debug_mode}",
    )
    level = modes[debug_mode]
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0 for default, 1 for warn, 2 for error."""
    if not _deterministic["enabled"]:
        return 0
    return 1 if _deterministic["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Whether float32 products may be less exact where that is faster: "highest", "high",
    "medium"."""
    check(
        precision in PRECISIONS,
        RuntimeError,
        f"set_float32_matmul_precision: {precision!r} is not one of {', '.join(PRECISIONS)}",
    )
    matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was told; products on the CPU are always of the highest."""
    return matmul.precision


def typename(obj: Any) -> str:
    """The name of a tensor's legacy type, or of any other object's class with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", None) else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def set_warn_always(b: bool) -> None:
    """Whether Ember's warnings are given each time, not once for each line of the program.

    >>> import ember as torch
    >>> torch.set_warn_always(False)
    """
    always[0] = bool(b)


def is_warn_always_enabled() -> bool:
    """Whether Ember's warnings are given each time."""
    return always[0]


def init_num_threads() -> None:
    """Threads need no preparation."""


def compiled_with_cxx11_abi() -> bool:
    """Whether C++ extensions of this program use the newer layout of standard types: they would,
    nothing here is compiled."""
    return True
