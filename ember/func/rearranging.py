"""`rearrange`: dims named, reordered, split and joined by a pattern (Rogozhnikov, Einops, 2022)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import product
from ember.ops.joining import stack

Group = list[str]  # the axes that one dim is made of, after a "(" where they stand in parentheses
DOTS, OPEN = "…", "("


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> Any:
    """A tensor with its dims in the order of a pattern "old -> new".

    Names stand for dims, (a b) for one dim made of two, ... for dims that go along, 1 for a dim of
    size 1; `axes_lengths` gives sizes that a split leaves open. Tensors in a list have their number
    as first dim. ValueError for patterns that do not fit.

    >>> import ember as torch
    >>> images = torch.zeros(8, 3, 32, 32)
    >>> torch.func.rearrange(images, "b c (h two) w -> b (c two) h w", two=2).shape
    torch.Size([8, 6, 16, 32])
    """
    check(
        isinstance(tensor, (Tensor, list, tuple)),
        TypeError,
        f"rearrange(): expected a tensor or a list of tensors, not {type(tensor).__name__}",
    )
    if not isinstance(tensor, Tensor):
        tensor = stack(tensor)
    left, right = _parsed(pattern, axes_lengths)
    whole: Any = tensor
    left, right = _with_dots(left, right, whole.ndim)
    sizes = _sizes(left, whole.shape, axes_lengths)
    names = [a for group in left for a in group]
    whole = whole.reshape([sizes[a] for a in names])
    order = [names.index(a) for group in right for a in group if a in names]
    ones = [i for i in range(len(names)) if i not in order]  # unnamed axes of size 1
    whole = whole.permute((*order, *ones))
    return whole.reshape([product(sizes.get(a, 1) for a in group) for group in right])


def _parsed(pattern: str, lengths: dict[str, int]) -> tuple[list[Group], list[Group]]:
    sides = pattern.split("->")
    check(len(sides) == 2, ValueError, "Pattern must contain a single '->' separator")
    left, right = (_groups(side) for side in sides)
    names = [{a for g in groups for a in g if a[0] not in "1("} for groups in (left, right)]
    check(
        not any(DOTS in g and OPEN in g for g in left),
        ValueError,
        f"Ellipsis is parenthesis in the left side is not allowed: {pattern}",
    )
    check(
        DOTS in names[0] or DOTS not in names[1],
        ValueError,
        f"Ellipsis found in right side, but not left side of a pattern {pattern}",
    )
    alone = (names[0] ^ names[1]) - {DOTS}
    check(
        not alone,
        ValueError,
        f"Identifiers only on one side of rearrange expression (should be on both): {alone}",
    )
    unknown = set(lengths) - names[0]
    check(
        not unknown,
        ValueError,
        f"Identifiers not found in rearrange expression: {unknown}",
    )
    return left, right


def _groups(side: str) -> list[Group]:
    """The groups of one side; each unnamed axis of size 1 has a name of its own."""
    text = side.replace("...", DOTS)
    check(
        "." not in text and text.count(DOTS) <= 1,
        ValueError,
        "Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor",
    )
    groups: list[Group] = []
    inside = False
    for place, token in enumerate(re.findall(r"\w+|[()…]|\S", text)):
        if token in "()":
            check(
                not (token == "(" and inside),
                ValueError,
                "Axis composition is one-level (brackets inside brackets not allowed)",
            )
            check(inside == (token == ")"), ValueError, f"Imbalanced parentheses: {side!r}")
            inside = token == "("
            if inside:
                groups.append([OPEN])
            continue
        name = _checked(token, place, [a for g in groups for a in g])
        if inside:
            groups[-1].append(name)
        else:
            groups.append([name])
    check(not inside, ValueError, f"Imbalanced parentheses in expression: {side!r}")
    return groups


def _checked(token: str, place: int, before: Sequence[str]) -> str:
    if token.isdecimal():
        check(token == "1", ValueError, "rearrange only supports unnamed axes of size 1")
        return f"1:{place}"
    right = token == DOTS or (token.isidentifier() and token.strip("_") == token)
    check(
        right,
        ValueError,
        f"Invalid axis identifier: {token} (a name must not start or end with an underscore)"
        if token.isidentifier()
        else f"Unknown character {token!r}",
    )
    check(
        token not in before,
        ValueError,
        f"Indexing expression contains duplicate dimension {token!r}",
    )
    return token


def _with_dots(left: list[Group], right: list[Group], ndim: int) -> tuple[list[Group], list[Group]]:
    """Both sides with names in place of the dots, and without parentheses."""
    count = ndim - len(left)
    if [DOTS] in left:
        count += 1
        fits = count >= 0
    else:
        fits = count == 0
    check(
        fits,
        ValueError,
        f"Number of dimensions in pattern ({len(left)}) must be equal to the number of dimensions "
        f"in the tensor ({ndim})",
    )
    extra = [f"…{i}" for i in range(count)]

    def filled(groups: list[Group]) -> list[Group]:
        made: list[Group] = []
        for group in groups:
            if group == [DOTS]:
                made += [[name] for name in extra]
            else:
                parts = [extra if a == DOTS else [a] for a in group if a != OPEN]
                made.append([name for part in parts for name in part])
        return made

    return filled(left), filled(right)


def _sizes(left: list[Group], shape: Sequence[int], lengths: dict[str, int]) -> dict[str, int]:
    """The size of each axis. ValueError where a dim does not split as told."""
    sizes: dict[str, int] = {}
    for group, size in zip(left, shape, strict=True):
        known = {a: 1 if a.startswith("1:") else lengths.get(a) for a in group}
        opened = [a for a, n in known.items() if n is None]
        check(
            len(opened) <= 1,
            ValueError,
            f"cannot infer the sizes of two dimensions at once: {' and '.join(opened)}",
        )
        rest = product(n for n in known.values() if n is not None)
        fits = rest > 0 and size % rest == 0 if opened else rest == size
        check(
            fits,
            ValueError,
            f"a dimension of size {size} does not split into {known}",
        )
        sizes |= {a: size // rest if n is None else n for a, n in known.items()}
    return sizes
