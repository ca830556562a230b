"""Results of calls of the CUDA runtime, and the errors for them."""

from __future__ import annotations


class cudaStatus:
    """The two results that programs look at."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """A call of the CUDA runtime that failed."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA runtime error ({int(code)})")


class DeferredCudaCallError(Exception):
    """What was to be done when the first GPU is used has failed."""


def check_error(res: int) -> None:
    """CudaError unless the result of a call is success.

    >>> import ember as torch
    >>> torch.cuda.check_error(0)
    """
    if int(res) != cudaStatus.SUCCESS:
        raise CudaError(res)


__all__ = ["CudaError", "DeferredCudaCallError", "check_error", "cudaStatus"]
