"""The exceptions Ember raises, and `check`, the one way to raise them for bad input."""

from __future__ import annotations

from collections.abc import Callable


class OutOfMemoryError(RuntimeError):
    """A device has no room for an allocation; exported as `torch.OutOfMemoryError` and under
    `torch.cuda`."""


class DeviceMismatchError(RuntimeError):
    """The arguments of one op live on different devices."""


class AcceleratorError(RuntimeError):
    """A device refused a request, such as an ordinal that does not exist."""


class LinAlgError(RuntimeError):
    """A matrix has no factorization of a kind, or none was found; exported as
    `torch.linalg.LinAlgError`."""


def check(condition: object, kind: type[Exception], message: str | Callable[[], str]) -> None:
    """Raise `kind(message)` unless `condition` holds; a callable message is only built on failure.

    >>> check(1 < 2, ValueError, "never seen")
    """
    if not condition:
        raise kind(message() if callable(message) else message)
