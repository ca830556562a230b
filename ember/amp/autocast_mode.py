"""`autocast`: inside, matrix products run in half precision and delicate ops in float32."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ember import dtypes
from ember.backends.base import backend_of, has_backend
from ember.core import modes
from ember.core.modes import (
    autocast_state,
    clear_autocast_cache,
    pop_autocast,
    push_autocast,
    set_autocast_dtype,
)
from ember.core.tensor import Tensor
from ember.device import KNOWN, device
from ember.errors import check

__all__ = [
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_dtype",
]

_CPU_DTYPES = (dtypes.bfloat16, dtypes.float16)


def _check_type_name(device_type: Any) -> None:
    check(
        isinstance(device_type, str),
        ValueError,
        lambda: f"Expected `device_type` of type `str`, got: `{type(device_type)}`",
    )


def _type_of(text: str) -> str:
    """The type that a device string names; also one of PyTorch's that Ember does not run on."""
    kind = text.partition(":")[0] if isinstance(text, str) else ""
    return kind if kind in KNOWN.split(", ") else device(text).type


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows rules for a device type. RuntimeError for a name that no device has.

    >>> import ember as torch
    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return _type_of(device_type) in modes.AUTOCAST_DEFAULTS


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether ops on a device type are autocast here."""
    return autocast_state(_type_of(device_type))[0]


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The half-precision dtype that autocast uses, or would use, on a device type."""
    return autocast_state(_type_of(device_type))[1]


def is_autocast_cache_enabled() -> bool:
    """Whether autocast keeps the half-precision copies of parameters until the outermost block
    ends."""
    return not modes.state.autocast_stack or modes.state.autocast_cache is not None


def has_gpu() -> bool:
    """Whether there is a GPU, real or simulated."""
    return has_backend("cuda") and backend_of("cuda").device_count() > 0


class autocast:
    """Inside, each op on a device type runs in the dtype that suits it. A context manager and a
    decorator.

    Matrix products and convolutions run in `dtype` (default float16 on GPUs, bfloat16 on the CPU),
    ops that need the range or precision in float32, ops of several tensors in the widest of their
    dtypes; parameters and their gradients stay as they are. Blocks nest, and one with
    `enabled=False` switches it off inside. Casts of parameters are kept until the outermost block
    ends unless `cache_enabled=False`. ValueError for a device_type that is no string; a dtype that
    the device lacks warns and disables the block.

    >>> import ember as torch
    >>> a = torch.ones(2, 2)
    >>> with torch.autocast("cpu"):
    ...     (a @ a).dtype, (a + a).dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_type_name(device_type)
        self.device = device(device_type).type
        check(
            self.device in modes.AUTOCAST_DEFAULTS,
            RuntimeError,
            f"User specified an unsupported autocast device_type '{self.device}'",
        )
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = bool(enabled) and self._supported()

    def _supported(self) -> bool:
        if self.device == "cuda":
            if not has_gpu():
                warnings.warn(
                    "CUDA is not available or torch_xla is imported. Disabling autocast.",
                    stacklevel=4,
                )
                return False
            known = isinstance(self.fast_dtype, dtypes.dtype) and self.fast_dtype.is_floating_point
            names = "floating-point dtypes"
        else:
            known = self.fast_dtype in _CPU_DTYPES
            names = "dtypes of torch.bfloat16, torch.float16"
        if not known:
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. "
                f"Disabling autocast.\n{self.device.upper()} Autocast only supports {names} "
                "currently.",
                stacklevel=4,
            )
        return known

    def __enter__(self) -> autocast:
        push_autocast(self.device, self._enabled, self.fast_dtype, self._cache_enabled)
        return self

    def __exit__(self, *exc: object) -> None:
        pop_autocast()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """`func` run inside this block."""

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def _cast(value: Any, device_type: str, dtype: dtypes.dtype) -> Any:
    """A tree with its floating-point tensors on a device type cast, but for float64 ones."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type
        return value.to(dtype) if eligible and value.dtype is not dtypes.float64 else value
    if isinstance(value, Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtypes.dtype | None = None,
) -> Callable[..., Any]:
    """Decorate the `forward` of an `autograd.Function` so that its backward can run under the same
    autocast.

    With `cast_inputs`, a forward inside an autocast block gets its tensors in that dtype and runs
    with autocast off.
    """
    _check_type_name(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled, ctx._dtype = autocast_state(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args, kwargs = _cast((args, kwargs), device_type, cast_inputs)
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward` that belongs to a `custom_fwd`: it runs under the autocast of the
    forward."""
    _check_type_name(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward
