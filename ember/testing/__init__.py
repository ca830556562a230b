"""`torch.testing`: `assert_close` says how two results differ, `make_tensor` makes inputs."""

from __future__ import annotations

from typing import Any

from ember.missing import missing_attribute
from ember.testing._comparison import assert_allclose, assert_close
from ember.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]


def __getattr__(name: str) -> Any:
    raise missing_attribute("torch.testing", name, lambda: __all__)
