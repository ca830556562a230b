"""`torch.backends.mkl`: Intel's MKL, which Ember does not call; NumPy's own library multiplies."""

from __future__ import annotations

from ember.errors import check

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether Ember calls MKL: no.

    >>> import ember as torch
    >>> torch.backends.mkl.is_available()
    False
    """
    return False


class verbose:
    """A block in which MKL reports. AssertionError: Ember does not call it."""

    def __init__(self, enable: int):
        self.enable = enable

    def __enter__(self) -> verbose:
        check(
            self.enable == VERBOSE_OFF,
            AssertionError,
            "Failed to set MKL into verbose mode. Please consider to disable this verbose scope: "
            "Ember does not call MKL",
        )
        return self

    def __exit__(self, *error: object) -> None:
        pass
