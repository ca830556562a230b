"""Half precision to and from float32 by compiled kernels: NumPy converts one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.cpu import compiled
from ember.dtypes import HALF, float32
from ember.kernel.array import Array, Spec
from ember.kernel.call import MapCall
from ember.scalar.expr import var

MOST_KNOWN = 10_000
_known: dict[tuple[Spec, Spec], Callable[..., None] | None] = {}


def cast(target: Array, source: Array) -> bool:
    """Write an array, broadcast, into another of the other precision; False where NumPy has to."""
    key = target.spec, source.spec
    if key in _known:
        loop = _known[key]
    else:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        loop = _known[key] = _planned(*key)
    if loop is None or target.storage is source.storage:
        return False
    loop((source,), (target,))
    return True


def _planned(target: Spec, source: Spec) -> Callable[..., None] | None:
    pair = {target.dtype, source.dtype}
    if float32 not in pair or not (pair & set(HALF)) or not target.numel:
        return None
    root: Any = var("x")
    call = MapCall(
        "cast",
        (source,),
        (target,),
        roots=(root,),
        names=("x",),
        compute=float32,
        keeps=frozenset(("x",)),
    )
    return compiled.plan(call, often=True)
