"""The names of process groups in the module that PyTorch defines them in."""

from __future__ import annotations

__all__ = [name for name in dict(globals()) if not name.startswith("__") and name != "annotations"]
