"""Compiled code kept on disk for the next process: written whole or not at all, and read only if it
is as it was written."""

from __future__ import annotations

import contextlib
import hashlib
import os


def path_of(kind: str, described: str, ending: str) -> str:
    """The file for the code of a description: in EMBER_CACHE, or `ember` in the user's cache
    folder, a folder for each kind."""
    base = os.environ.get("EMBER_CACHE")
    if not base:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(home, "ember")
    key = hashlib.sha256(described.encode()).hexdigest()
    return os.path.join(base, kind, f"{key}{ending}")


def read(path: str) -> bytes | None:
    """The code in a file, if it is there and whole."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(path: str, code: bytes) -> None:
    """Keep code for the next process; a full or read-only disk costs only that."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
