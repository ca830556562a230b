"""View ops as copies: `transpose_copy` is `transpose` whose result has memory of its own."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, METHOD, OUT, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops import complex_numbers, splits, strided, views
from ember.ops.formats import contiguous_format

contiguous = {"memory_format": contiguous_format}


def _copy(name: str, view: Any) -> None:
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        made = view(input, *args, **kwargs)
        if isinstance(made, (tuple, list)):
            return tuple(part.clone(**contiguous) for part in made)
        return made.clone(**contiguous)

    call.__name__, call.__doc__ = name, f"`{name[:-5]}` as a copy."
    composite(FUNCTION | OUT, name=name)(call)


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    first, last, _ = slice(start, end, step).indices(input.shape[dim])
    return views.slice_(input, dim % input.ndim, first, max(last, first), step)


for _name, _view in {
    "alias": lambda input: input,
    "detach": lambda input: input.detach(),
    "as_strided": strided.as_strided,
    "diagonal": views.diagonal,
    "expand": views.expand,
    "permute": views.permute,
    "select": views.select,
    "slice": _slice,
    "split": splits.split,
    "split_with_sizes": splits.split_with_sizes,
    "squeeze": views.squeeze,
    "t": views.t,
    "transpose": views.transpose,
    "unbind": splits.unbind,
    "unfold": views.unfold,
    "unsqueeze": views.unsqueeze,
    "view": views.view,
    "view_as_complex": complex_numbers.view_as_complex,
    "view_as_real": complex_numbers.view_as_real,
}.items():
    _copy(f"{_name}_copy", _view)


@composite(FUNCTION | METHOD | OUT)
def narrow_copy(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`narrow` as a copy."""
    check(
        dim < max(input.ndim, 1),
        RuntimeError,
        f"narrow_copy(): Expected dim to be less than {input.ndim}, but got {dim}",
    )
    return views.narrow(input, dim, start, length).clone(**contiguous)
