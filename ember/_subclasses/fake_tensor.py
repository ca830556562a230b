"""`FakeTensor`, for isinstance: tensors without memory are those on the device "meta" here."""

from __future__ import annotations

from typing import Any


class FakeTensor:
    """A tensor without memory on a device; none is made here."""


class FakeTensorMode:
    """A block of tensors without memory: NotImplementedError; those are on the device "meta"."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "FakeTensorMode: programs are not captured on stand-ins; with torch.device('meta') "
            "makes tensors without memory"
        )


def is_fake(x: Any) -> bool:
    """Whether a tensor is a stand-in: never here."""
    return False


def unset_fake_temporarily() -> Any:
    """A block without such a mode."""
    from contextlib import nullcontext

    return nullcontext()
