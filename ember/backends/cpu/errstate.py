"""Floating-point flags are not warnings here: 1/0 is inf, as on every device.

`np.errstate` costs more than a small op, so the prepared state is set in NumPy's own context
variable where the NumPy at hand has it (2.x), and through `np.errstate` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _IGNORE = _make_extobj(all="ignore")
    _set, _reset = _extobj_contextvar.set, _extobj_contextvar.reset

    # Ignore floating-point flags from here on; the result is for `leave`. No function of Python's
    # lies between, which would cost a small op a tenth of its time.
    enter: Callable[[], Any] = partial(_set, _IGNORE)
    leave = _reset
except (ImportError, TypeError):  # another NumPy: the public way

    def enter() -> Any:
        """Ignore floating-point flags from here on; pass the result to `leave`."""
        return np.seterr(all="ignore")

    def leave(token: Any) -> None:
        """Restore what `enter` found."""
        np.seterr(**token)
