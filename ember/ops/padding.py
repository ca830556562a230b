"""Borders: `pad`, made of slices of the tensor and constants, joined dim by dim."""

import operator

from ember.core.registry import FUNCTION, F, composite
from ember.core.second_order import flat_beyond
from ember.errors import check
from ember.ops.formats import in_order_of, plain_order
from ember.ops.joining import cat

_SUPPORTED = (
    "Supported combinations for non-constant padding:\n"
    "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
    "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
    "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
)


@composite(export=F)
def pad(input, pad, mode="constant", value=None):
    """Elements added before and after the last dims, as `pad` lists them, the last dim first.

    Negative numbers cut. mode: "constant" (of `value`, 0 by default), "reflect" (mirrored, without
    the edge), "replicate" (the edge repeated) or "circular". RuntimeError for a border that the
    input is too small for; NotImplementedError for other ranks with the last three modes.

    >>> import ember as torch
    >>> torch.nn.functional.pad(torch.tensor([[1, 2, 3]]), (1, 2), mode="reflect")
    tensor([[2, 1, 2, 3, 2, 1]])
    """
    amounts = _amounts(input, pad)
    if mode == "constant":
        return _with_constant(input, amounts, value or 0)
    check(
        mode in _BORDERS,
        NotImplementedError,
        f"Unrecognised padding mode {mode}",
    )
    check(
        not value,
        RuntimeError,
        f'Padding mode "{mode}" doesn\'t take in value argument',
    )
    check(
        len(amounts) in (1, 2, 3) and input.dim() in (len(amounts) + 1, len(amounts) + 2),
        NotImplementedError,
        lambda: (
            f"Padding size {2 * len(amounts)} is not supported for {input.dim()}D input tensor.\n"
            f"{_SUPPORTED}"
        ),
    )
    check(
        mode == "circular" or all(size > 0 for size in input.shape[-len(amounts) - 1 :]),
        RuntimeError,
        lambda: (
            f"Expected {len(amounts) + 1}D or {len(amounts) + 2}D (batch mode) tensor with "
            "possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        ),
    )
    if mode != "circular":
        input = flat_beyond(input)
        return in_order_of(input, _bordered(input, amounts, _BORDERS[mode]))
    return _bordered(plain_order(input), amounts, _BORDERS[mode])


@composite(export=FUNCTION)
def constant_pad_nd(input, pad, value=0):
    """`pad` with a constant.

    >>> import ember as torch
    >>> torch.constant_pad_nd(torch.ones(2), (0, 1), 7)
    tensor([1., 1., 7.])
    """
    return _with_constant(input, _amounts(input, pad), value)


def _with_constant(input, amounts, value):
    made = _bordered(input, amounts, lambda x, dim, n: _constant(x, dim, n, value))
    return in_order_of(input, made)


def _amounts(input, given):
    """(before, after) of each dim to pad, the last dim first."""
    check(
        isinstance(given, (tuple, list)) or hasattr(given, "__iter__"),
        TypeError,
        lambda: (
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(given).__name__}"
        ),
    )
    numbers = []
    for position, n in enumerate(given):
        try:
            numbers.append(operator.index(n))
        except TypeError:
            raise TypeError(
                "pad(): argument 'pad' (position 2) must be tuple of ints, "
                f"but found element of type {type(n).__name__} at pos {position}"
            ) from None
    check(len(numbers) % 2 == 0, RuntimeError, "Padding length must be divisible by 2")
    check(
        len(numbers) <= 2 * input.dim(),
        RuntimeError,
        lambda: (
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(numbers)} and input of dimension {input.dim()}"
        ),
    )
    return list(zip(numbers[::2], numbers[1::2]))


def _bordered(input, amounts, border):
    """The input with borders; `border(input, dim, (before, after))` makes the two parts of one."""
    out = input
    for back, (before, after) in enumerate(amounts, 1):
        dim, size = input.dim() - back, input.size(-back)
        check(
            size + before + after >= 0,
            RuntimeError,
            lambda: (
                f"The input size {size}, plus negative padding {before} and {after} resulted in a "  # noqa: B023
                "negative output size, which is invalid. Check dimension "
                f"{dim} of your input."  # noqa: B023
            ),
        )
        positive = (max(before, 0), max(after, 0))
        whole = out
        if before < 0 or after < 0:
            start = min(-min(before, 0), size)
            out = out.narrow(dim, start, max(size + min(after, 0) - start, 0))
        # What wraps around is what is left; an edge is the input's own.
        first, last = border(out if border is _circle else whole, dim, positive)
        first, last = _cut(first, dim, before + size), _cut(last, dim, after + size)
        parts = [part for part in (first, out, last) if part is not None]
        if len(parts) > 1:
            out = cat(parts, dim)
    # A view would share memory with the input, which this never does.
    return out.clone() if out is input or out._is_view() else out


def _cut(part, dim, left):
    """What remains of a border when the other side cuts more than the tensor holds."""
    if part is None or left >= part.size(dim):
        return part
    return part.narrow(dim, 0, max(left, 0)) if left > 0 else None


def _constant(x, dim, amounts, value):
    def block(n):
        shape = [n if d == dim else size for d, size in enumerate(x.shape)]
        return x.new_full(shape, value) if n else None

    return block(amounts[0]), block(amounts[1])


def _reflection(x, dim, amounts):
    size = x.size(dim)
    check(
        all(n < size for n in amounts),
        RuntimeError,
        lambda: (
            "Argument #4: Padding size should be less than the corresponding input dimension, but "
            f"got: padding {tuple(amounts)} at dimension {dim} of input {list(x.shape)}"
        ),
    )
    before, after = amounts
    return (
        x.narrow(dim, 1, before).flip(dim) if before else None,
        x.narrow(dim, size - 1 - after, after).flip(dim) if after else None,
    )


def _replication(x, dim, amounts):
    def edge(place, n):
        shape = [n if d == dim else -1 for d in range(x.dim())]
        return x.narrow(dim, place, 1).expand(shape) if n else None

    return edge(0, amounts[0]), edge(x.size(dim) - 1, amounts[1])


def _circle(x, dim, amounts):
    size = x.size(dim)
    message = "Padding value causes wrapping around more than once."
    check(all(n <= size for n in amounts), RuntimeError, message)
    before, after = amounts
    return (
        x.narrow(dim, size - before, before) if before else None,
        x.narrow(dim, 0, after) if after else None,
    )


_BORDERS = {"reflect": _reflection, "replicate": _replication, "circular": _circle}
