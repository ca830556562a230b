"""`torch.export`: programs are not exported yet; the names are here for programs that import
them."""

from __future__ import annotations

from typing import Any

from ember.export.dims import Dim, ShapesCollection, dims

__all__ = [
    "Dim",
    "ExportedProgram",
    "ShapesCollection",
    "dims",
    "export",
    "load",
    "register_dataclass",
    "save",
]


class ExportedProgram:
    """An exported program; none is made here."""


def _not_exported(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.export.{name}(): programs are not exported yet; torch.fx.symbolic_trace gives the "
        "graph of a module, torch.save keeps its weights"
    )


def export(*args: Any, **kwargs: Any) -> ExportedProgram:
    """NotImplementedError: programs are not exported yet."""
    raise _not_exported("export")


def export_for_training(*args: Any, **kwargs: Any) -> ExportedProgram:
    """NotImplementedError: programs are not exported yet."""
    raise _not_exported("export_for_training")


def draft_export(*args: Any, **kwargs: Any) -> ExportedProgram:
    """NotImplementedError: programs are not exported yet."""
    raise _not_exported("draft_export")


def load(*args: Any, **kwargs: Any) -> ExportedProgram:
    """NotImplementedError: exported programs are not read."""
    raise _not_exported("load")


def save(*args: Any, **kwargs: Any) -> None:
    """NotImplementedError: exported programs are not written."""
    raise _not_exported("save")


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Say that an exported program may take a dataclass; as nothing is exported, nothing uses
    it."""
