"""Library ops for whole batches: a rule for those where it is cheap, one element after another for
the rest.

A rule takes (op, values, flags, size, one): the arguments with batches in place of elements, which
of them have the batch's dim, the size of the batch, and the arguments for one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember.core.array import full
from ember.core.levels import aligned
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import int64
from ember.kernel.array import contiguous_spec
from ember.layout import broadcast_shapes, product, wrap_dim
from ember.ops.joining import stack

Rule = Callable[[Any, list[Any], list[Any], int, Sequence[Any]], Any]

DYNAMIC = frozenset("nonzero unique unique_consecutive masked_select".split())


def rule_of(op: Any) -> Rule:
    """The rule of a library op."""
    return RULES.get(op.name, one_by_one)


def one_by_one(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    """Each element's result by itself, stacked: right for every op whose results have shapes that
    do not depend on the data."""
    if op.name in DYNAMIC:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            f"to vmap over {op.name}: its result has another shape for each element."
        )
    if size == 0:
        return _nothing(op, one)
    made = []
    for position in range(size):
        row = [_element(v, f, position) for v, f in zip(values, flags, strict=True)]
        made.append(op.run(row))
    if isinstance(made[0], tuple):
        return tuple(stack(part) for part in zip(*made, strict=True))
    return stack(made)


def _element(value: Any, flag: Any, position: int) -> Any:
    if isinstance(flag, list):
        return type(value)(_element(v, f, position) for v, f in zip(value, flag, strict=True))
    return value[position] if flag else value


def _nothing(op: Any, one: Sequence[Any]) -> Any:
    count = op.positional
    specs = op.function(*one[:count], **dict(zip(op.parameters[count:], one[count:], strict=True)))

    def empty(spec: Any) -> Tensor:
        return tensor_of(full(contiguous_spec((0, *spec.shape), spec.dtype, spec.device), 0))

    return tuple(map(empty, specs)) if isinstance(specs, tuple) else empty(specs)


def spread(value: Any, flag: bool, size: int) -> Any:
    """A tensor with the batch's dim, by repetition without copies if it has none."""
    return value if flag else value.unsqueeze(0).expand((size, *value.shape))


def along(*names: str, single: tuple[str, ...] = ()) -> Rule:
    """The rule of ops along dims: the dims named are one further on. Tensors of `single` must be
    the same for all elements (else one by one)."""

    def rule(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
        values = list(values)
        places = {p: i for i, p in enumerate(op.parameters)}
        lead = next(v for v in one if isinstance(v, (Tensor, list, tuple)))
        lead = lead if isinstance(lead, Tensor) else lead[0]
        if lead.ndim == 0 or any(flags[places[s]] for s in single):
            return one_by_one(op, values, flags, size, one)
        for position, name in enumerate(op.parameters):
            value, flag = values[position], flags[position]
            if name in names:
                values[position] = (
                    tuple(wrap_dim(d, lead.ndim) + 1 for d in value)
                    if isinstance(value, (tuple, list))
                    else wrap_dim(value, lead.ndim) + 1
                )
            elif isinstance(value, Tensor) and name not in single:
                if one[position].ndim == 0:
                    return one_by_one(op, values, flags, size, one)
                values[position] = spread(value, flag, size)
            elif isinstance(flag, list):
                values[position] = type(value)(
                    spread(v, f, size) for v, f in zip(value, flag, strict=True)
                )
        return op.run(values)

    return rule


def _leading(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    """Ops over the last dims of operands with the same batch dims in front."""
    tensors = [(v, f) for v, f in zip(values, flags, strict=True) if isinstance(v, Tensor)]
    if len({v.ndim - f for v, f in tensors}) > 1:
        return one_by_one(op, values, flags, size, one)
    made = [
        spread(v, f, size) if isinstance(v, Tensor) else v
        for v, f in zip(values, flags, strict=True)
    ]
    return op.run(made)


def _product(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    a, b = values
    if flags[0] and not flags[1] and b.ndim == 2 and a.ndim > 2:  # one product of many rows
        flat = a.reshape((product(a.shape[:-1]), a.shape[-1]))
        return op.run([flat, b]).reshape((*a.shape[:-1], b.shape[-1]))
    ndim = max(x.ndim for x in one)
    a, b = (aligned(x, ndim) if f else x for x, f in zip(values, flags, strict=True))
    return op.run([a, b])


def _folded(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    """Ops over (N, C, *spatial): the batch becomes part of N."""
    made: list[Any] = []
    count = 0
    for name, value, flag in zip(op.parameters, values, flags, strict=True):
        if isinstance(value, Tensor):
            whole = spread(value, flag, size)
            count = whole.shape[1]
            made.append(whole.reshape((size * count, *whole.shape[2:])))
        elif name == "input_shape":
            made.append((size * value[0], *value[1:]))
        else:
            made.append(value)
    found = op.run(made)

    def back(part: Any) -> Any:
        return part.reshape((size, part.shape[0] // size if size else count, *part.shape[1:]))

    return tuple(map(back, found)) if isinstance(found, tuple) else back(found)


def _grouped(x: Any, size: int) -> Any:
    """(B, N, C, ...) as (N, B·C, ...)."""
    x = x.transpose(0, 1)
    return x.reshape((x.shape[0], size * x.shape[2], *x.shape[3:]))


def _ungrouped(x: Any, size: int) -> Any:
    """(N, B·C, ...) as (B, N, C, ...)."""
    return x.reshape((x.shape[0], size, x.shape[1] // size, *x.shape[2:])).transpose(0, 1)


def _convolution(
    op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]
) -> Any:
    """x batched: more of N. Weights batched: a group for each element."""
    x, weight, *how, groups = values
    if size == 0:
        return _nothing(op, one)
    if not flags[1]:
        count = x.shape[1]
        found = op.run([x.reshape((size * count, *x.shape[2:])), weight, *how, groups])
        return found.reshape((size, count, *found.shape[1:]))
    x = _grouped(spread(x, flags[0], size), size)
    weight = weight.reshape((size * weight.shape[1], *weight.shape[2:]))
    return _ungrouped(op.run([x, weight, *how, groups * size]), size)


def _convolution_input(
    op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]
) -> Any:
    grad, weight, shape, *how, groups = values
    if size == 0:
        return _nothing(op, one)
    if not flags[1]:
        count = grad.shape[1]
        grad = grad.reshape((size * count, *grad.shape[2:]))
        found = op.run([grad, weight, (size * shape[0], *shape[1:]), *how, groups])
        return found.reshape((size, *shape))
    grad = _grouped(spread(grad, flags[0], size), size)
    weight = weight.reshape((size * weight.shape[1], *weight.shape[2:]))
    shape = (shape[0], size * shape[1], *shape[2:])
    return _ungrouped(op.run([grad, weight, shape, *how, groups * size]), size)


def _convolution_weight(
    op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]
) -> Any:
    grad, x, shape, *how, groups = values
    if size == 0:
        return _nothing(op, one)
    grad = _grouped(spread(grad, flags[0], size), size)
    x = _grouped(spread(x, flags[1], size), size)
    found = op.run([grad, x, (size * shape[0], *shape[1:]), *how, groups * size])
    return found.reshape((size, *shape))


# indexing


def _index(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    x, indices = values
    index_flags = flags[1] if isinstance(flags[1], list) else [False] * len(indices)
    if not any(index_flags):
        return op.run([x, (None, *indices)])
    _, front, ndim = _used(one[1])
    if not flags[0]:
        found = op.run([x, _in_line(indices, index_flags, ndim)])
        return found.movedim(front, 0)
    numbers = _numbers(x, size, ndim)
    found = op.run([x, (numbers, *_in_line(indices, index_flags, ndim))])
    return _to_front(found, front, ndim)


def _index_put(op: Any, values: list[Any], flags: list[Any], size: int, one: Sequence[Any]) -> Any:
    x, indices, new, accumulate = values
    index_flags = flags[1] if isinstance(flags[1], list) else [False] * len(indices)
    _, front, ndim = _used(one[1])
    x = spread(x, flags[0], size)
    target = _target_shape(one)
    if flags[2]:
        new = aligned(new, len(target))
    if not any(index_flags):
        return op.run([x, (None, *indices), new, accumulate])
    new = new.expand((size, *target)) if flags[2] else new.expand(target).expand((size, *target))
    for position in range(ndim):
        new = new.movedim(1 + front + position, 1 + position)
    numbers = _numbers(x, size, ndim)
    return op.run([x, (numbers, *_in_line(indices, index_flags, ndim)), new, accumulate])


def _used(indices: Sequence[Any]) -> tuple[list[int], int, int]:
    """The indexed dims, where the indices' dims stand in the result, and how many they are."""
    used = [d for d, i in enumerate(indices) if i is not None]
    together = used == list(range(used[0], used[0] + len(used)))
    ndim = len(broadcast_shapes(*(tuple(indices[d].shape) for d in used)))
    return used, used[0] if together else 0, ndim


def _target_shape(one: Sequence[Any]) -> tuple[int, ...]:
    x, indices = one[0], one[1]
    used, front, _ = _used(indices)
    found = broadcast_shapes(*(tuple(indices[d].shape) for d in used))
    rest = [n for d, n in enumerate(x.shape) if d not in used]
    return (*rest[:front], *found, *rest[front:])


def _in_line(indices: Sequence[Any], flags: Sequence[bool], ndim: int) -> tuple[Any, ...]:
    return tuple(aligned(i, ndim) if f else i for i, f in zip(indices, flags, strict=True))


def _numbers(x: Any, size: int, ndim: int) -> Any:
    ones = full(contiguous_spec((size,), int64, x.device), 1)
    counted: Any = tensor_of(ones)
    return (counted.cumsum(0) - 1).view((size, *(1,) * ndim))


def _to_front(found: Any, front: int, ndim: int) -> Any:
    """The result of indexing with the batch's numbers first: their dims stand in front of all
    others, and go to where those of one element stand."""
    order = list(range(1 + ndim, found.ndim))
    order[front:front] = range(1, 1 + ndim)
    return found.permute((0, *order))


_DIM = along("dim")
_AT_INDEX = along("dim", single=("index",))

RULES: dict[str, Rule] = {
    "matmul": _product,
    "convolution": _convolution,
    "convolution_input": _convolution_input,
    "convolution_weight": _convolution_weight,
    "index": _index,
    "index_put": _index_put,
    "flip": along("dims"),
    "roll": along("dims"),
    **dict.fromkeys(
        "sort topk kthvalue mode median nanmedian cumsum cumprod cummax cummin logcumsumexp cat "
        "gather scatter argmax argmin fft_fftn fft_ifftn fft_rfftn fft_irfftn".split(),
        _DIM,
    ),
    **dict.fromkeys(
        "tril triu cholesky_inverse cholesky_solve geqrf lu_permutation ormqr_op linalg_qr "
        "linalg_solve_triangular linalg_inv_ex linalg_solve_ex linalg_cholesky_ex linalg_svd "
        "linalg_svdvals linalg_eigh linalg_eigvalsh linalg_eig linalg_eigvals linalg_det "
        "linalg_lu_factor_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_slogdet "
        "linalg_matrix_exp".split(),
        _leading,
    ),
    **dict.fromkeys("index_select index_add index_copy index_fill index_reduce".split(), _AT_INDEX),
    **dict.fromkeys(
        "max_pool max_pool_backward average_pool average_pool_backward adaptive_average_pool "
        "adaptive_average_pool_backward adaptive_max_pool resampled resampled_backward".split(),
        _folded,
    ),
}
