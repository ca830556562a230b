"""Which implementation of attention to use: plain products, or on real GPUs one of cuDNN's
kernels."""

import contextlib
import enum

from ember.backends.cuda.attention import sdp_kernel
from ember.errors import check

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """The names that PyTorch has for implementations of `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A block in which attention may use the given backends only: any of them but MATH lets real
    GPUs use one of cuDNN's kernels. Elsewhere a choice changes nothing.

    AssertionError for what is no backend.

    >>> from ember.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
    ...     pass
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    check(
        isinstance(given, (list, tuple)) and all(isinstance(b, SDPBackend) for b in given),
        AssertionError,
        "Backend must be an instance of SDPBackend or a list of SDPBackend instances",
    )
    fused = any(b not in (SDPBackend.MATH, SDPBackend.ERROR) for b in given)
    with sdp_kernel(fused, SDPBackend.MATH in given, fused, fused):
        yield {}
