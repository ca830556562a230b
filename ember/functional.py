"""`torch.functional`: the functions of `torch` that PyTorch writes in Python."""

from __future__ import annotations

from typing import Any

from ember.core.registry import NAMESPACES

_NAMES = (
    "align_tensors atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
    "cartesian_prod cdist chain_matmul einsum lu meshgrid norm split stft tensordot unique "
    "unique_consecutive unravel_index"
).split()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        try:
            return NAMESPACES["torch"][name]
        except KeyError:
            pass
    raise AttributeError(f"module 'torch.functional' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(_NAMES)
