"""Tracing below the level of ops: there is none, so no mode is ever active."""

from __future__ import annotations

from typing import Any


def get_proxy_mode() -> Any:
    """The active tracing mode: None."""
    return None


def make_fx(f: Any, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: use `torch.fx.symbolic_trace`."""
    raise NotImplementedError(
        "make_fx(): ops are not traced on example tensors; torch.fx.symbolic_trace(f) gives the "
        "graph of a function"
    )
