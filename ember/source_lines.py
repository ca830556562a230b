"""Where in the user's program are we? The innermost frame outside the package."""

from __future__ import annotations

import os
import sys
import warnings

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_line() -> tuple[str, int]:
    """(file, line) of the innermost calling frame that is not Ember's own; ("?", 0) if there is
    none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<ember")):
            return name, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "?", 0


def short(file: str) -> str:
    """`file` as seen from the working directory, where that is shorter."""
    if not os.path.isabs(file):
        return file
    return min(file, os.path.relpath(file), key=len)


always = [False]  # torch.set_warn_always


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the user's line instead of Ember's own; once a line, as Python's default is."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    registry = {} if always[0] else frame.f_globals.setdefault("__warningregistry__", {})
    name, line = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(message, category, name, line, registry=registry)
