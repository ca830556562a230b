"""The names of `torch._inductor` that programs use while nothing is compiled."""

from __future__ import annotations

from typing import Any

from ember._inductor import config
from ember.compiler.marks import cudagraph_mark_step_begin

__all__ = ["compile", "config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]


def compile(gm: Any, example_inputs: Any, options: Any = None) -> Any:
    """A graph module to be called: itself, since graphs are not compiled yet."""
    return gm


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that each mode of `torch.compile` stands for: none has an effect today."""
    return {}


def list_options() -> list[str]:
    """The options of `torch.compile` by name."""
    return sorted(name for name in vars(config) if not name.startswith("_"))
