"""Einstein summation: its equations, and their way through matrix products."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import product as size_of
from ember.ops.matmul import matmul

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _one_by_one(equation: Any, *operands: Any) -> tuple[Any, ...]:
    """The arguments with the operands of an older call, given as one list, apart."""
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    return (equation, *(operands[0] if listed and isinstance(equation, str) else operands))


@composite(FUNCTION, overridden_with=_one_by_one)
def einsum(*args: Any) -> Tensor:
    """Sums of products over the letters that the equation names and its output does not.

    "ij,jk->ik" is the matrix product; "..." stands for dims that broadcast; without "->" the
    letters that occur once are the output, in alphabetical order. Operands may also come with
    lists of numbers for letters: einsum(x, [0, 1], y, [1, 2], [0, 2]).

    >>> import ember as torch
    >>> torch.einsum("i,j->ij", torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    equation, operands = _arguments(args)
    check(len(operands) > 0, RuntimeError, "einsum(): must provide at least one operand")
    inputs, output = _parsed(equation, operands)
    known = [
        _without_repeats(operand, letters)
        for operand, letters in zip(operands, inputs, strict=True)
    ]
    sizes = _sizes(known)
    result, letters = known[0]
    for position, (other, more) in enumerate(known[1:], 1):
        later = {c for _, rest in known[position + 1 :] for c in rest}
        result, letters = _pair(result, letters, other, more, later | set(output), sizes)
    gone = [d for d, c in enumerate(letters) if c not in output]
    if gone:
        result = result.sum(gone, dtype=result.dtype)
        letters = [c for c in letters if c in output]
    return result.permute([letters.index(c) for c in output])


def _arguments(args: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    """(equation, operands) of both ways to call."""
    if args and isinstance(args[0], str):
        rest = args[1:]
        if len(rest) == 1 and isinstance(rest[0], (tuple, list)):
            rest = tuple(rest[0])
        return args[0], list(rest)
    check(
        len(args) >= 2,
        ValueError,
        "einsum(): must specify the equation string and at least one operand, or at least one "
        "operand and its subscripts list",
    )
    operands, parts = list(args[0 : len(args) // 2 * 2 : 2]), [*args[1::2]]
    equation = ",".join(map(_spelled, parts))
    if len(args) % 2:
        equation += "->" + _spelled(args[-1])
    return equation, operands


def _spelled(numbers: Any) -> str:
    for n in numbers:
        check(
            n is Ellipsis or 0 <= n < 52,
            ValueError,
            "einsum(): subscripts must be in range [0, 52)",
        )
    return "".join("..." if n is Ellipsis else LETTERS[n] for n in numbers)


def _parsed(equation: str, operands: list[Tensor]) -> tuple[list[list[Any]], list[Any]]:
    """Letters for each dim of each operand and of the output; the dims of "..." are numbers < 0."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    check(
        len(terms) >= len(operands),
        RuntimeError,
        "einsum(): more operands were provided than specified in the equation",
    )
    check(
        len(terms) <= len(operands),
        RuntimeError,
        "einsum(): fewer operands were provided than specified in the equation",
    )
    inputs = [_letters(t, x.ndim, i) for i, (t, x) in enumerate(zip(terms, operands, strict=True))]
    dots = max((sum(1 for c in t if isinstance(c, int)) for t in inputs), default=0)
    ellipsis = list(range(-dots, 0))
    if arrow:
        output = _output(right, ellipsis, inputs)
    else:
        seen = [c for t in inputs for c in t if isinstance(c, str)]
        output = [*ellipsis, *sorted(c for c in set(seen) if seen.count(c) == 1)]
    return inputs, output


def _letters(term: str, ndim: int, position: int) -> list[Any]:
    before, dots, after = (part.replace(" ", "") for part in term.partition("..."))
    for place, c in enumerate(before + after):
        check(
            c in LETTERS,
            RuntimeError,
            f"einsum(): invalid subscript given at index {place} in the equation string, "
            "subscripts "
            "must be in [a-zA-Z]",
        )
    named = len(before) + len(after)
    check(
        named <= ndim if dots else named == ndim,
        RuntimeError,
        f"einsum(): the number of subscripts in the equation ({named}) "
        f"{'is more than' if dots else 'does not match'} the number of dimensions ({ndim}) for "
        f"operand {position}" + ("" if dots else " and no ellipsis was given"),
    )
    return [*before, *range(named - ndim, 0), *after]


def _output(text: str, ellipsis: list[int], inputs: list[list[Any]]) -> list[Any]:
    before, dots, after = (part.replace(" ", "") for part in text.partition("..."))
    seen = {c for t in inputs for c in t}
    for c in before + after:
        check(
            c in LETTERS,
            RuntimeError,
            f"einsum(): invalid subscript {c!r} given for output, subscripts must be in [a-zA-Z]",
        )
        check(
            (before + after).count(c) == 1,
            RuntimeError,
            f"einsum(): output subscript {c} appears more than once in the output",
        )
        check(
            c in seen,
            RuntimeError,
            f"einsum(): output subscript {c} does not appear in the equation for any input operand",
        )
    return [*before, *(ellipsis if dots else []), *after]


def _sizes(known: list[tuple[Tensor, list[Any]]]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for position, (operand, letters) in enumerate(known):
        for d, c in enumerate(letters):
            size = operand.shape[d]
            known = sizes.get(c, 1)
            check(
                size == known or 1 in (size, known),
                RuntimeError,
                f"einsum(): subscript {c} has size {size} for operand {position} which does not "
                f"broadcast with previously seen size {known}",
            )
            sizes[c] = size if known == 1 else known
    return sizes


def _without_repeats(x: Tensor, letters: list[Any]) -> tuple[Tensor, list[Any]]:
    """A letter that an operand has twice names its diagonal."""
    letters = list(letters)
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            first = letters.index(c)
            second = letters.index(c, first + 1)
            check(
                x.shape[first] == x.shape[second],
                RuntimeError,
                f"einsum(): subscript {c} is repeated for operand but the sizes don't match, "
                f"{x.shape[first]} != {x.shape[second]}",
            )
            x = x.diagonal(0, first, second)
            letters = [l for i, l in enumerate(letters) if i not in (first, second)] + [c]
    return x, letters


def _pair(
    a: Tensor, a_letters: list[Any], b: Tensor, b_letters: list[Any], wanted: set[Any], sizes: Any
) -> tuple[Tensor, list[Any]]:
    """Two operands as one: letters that only one has and nobody wants are summed."""
    a, a_letters = _summed(a, a_letters, wanted | set(b_letters))
    b, b_letters = _summed(b, b_letters, wanted | set(a_letters))
    both = [c for c in a_letters if c in b_letters]
    batch = [c for c in both if c in wanted]
    inside = [c for c in both if c not in wanted]
    rows = [c for c in a_letters if c not in both]
    columns = [c for c in b_letters if c not in both]
    shape = [
        *(max(a.shape[a_letters.index(c)], b.shape[b_letters.index(c)], key=_wider) for c in batch),
        *(a.shape[a_letters.index(c)] for c in rows),
        *(b.shape[b_letters.index(c)] for c in columns),
    ]
    a, b = (_full(x, letters, inside, sizes) for x, letters in ((a, a_letters), (b, b_letters)))
    left = _matrix(a, a_letters, batch, rows, inside)
    right = _matrix(b, b_letters, batch, inside, columns)
    made = left * right if not inside else matmul(left, right)
    return made.reshape(shape), [*batch, *rows, *columns]


def _wider(size: int) -> tuple[bool, int]:
    return size != 1, size


def _summed(x: Tensor, letters: list[Any], kept: set[Any]) -> tuple[Tensor, list[Any]]:
    gone = [d for d, c in enumerate(letters) if c not in kept]
    if not gone:
        return x, letters
    return x.sum(gone, dtype=x.dtype), [c for c in letters if c in kept]


def _full(x: Tensor, letters: list[Any], inside: list[Any], sizes: Any) -> Tensor:
    """Dims that are summed in the product, expanded to their common size."""
    shape = [sizes[c] if c in inside else n for c, n in zip(letters, x.shape, strict=True)]
    return x if list(x.shape) == shape else x.expand(shape)


def _matrix(x: Tensor, letters: list[Any], batch: list[Any], rows: Any, columns: Any) -> Tensor:
    """(batch dims, all rows as one, all columns as one)."""
    x = x.permute([letters.index(c) for c in (*batch, *rows, *columns)])
    count, height = len(batch), len(rows)
    shape = x.shape
    return x.reshape(
        *shape[:count], size_of(shape[count : count + height]), size_of(shape[count + height :])
    )
