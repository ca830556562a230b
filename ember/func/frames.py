"""`BatchFrame`: a vmap in force. It runs each kind of op for a whole batch, by one rule a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import dispatch, modes
from ember.core.formula import FormulaOp
from ember.core.levels import Below, Frame, LevelArray, aligned
from ember.core.lifting import frame_of, is_batched, lift, raise_to, tensor_at
from ember.core.reduction import ReductionOp
from ember.core.row_formula import RowOp
from ember.core.tensor import Tensor, needs_grad
from ember.core.view import ViewOp
from ember.errors import check
from ember.func.batch_rules import rule_of, spread
from ember.layout import Layout, wrap_dims

RANDOM_ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' "
    "or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
SAME_SPOT = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)
SAME_FOR_ALL = (
    "Vmap does not currently support same randomness with a batched tensor input. Use "
    "randomness='different', or draw outside vmap."
)
ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on a Tensor, please try to rewrite what you're doing with other operations. If error "
    "is occurring somewhere inside PyTorch internals, please file a bug report."
)
CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. "
    "We don't support that yet: use torch.where in place of if, or decide outside vmap."
)


class BatchFrame(Frame):
    """A vmap over `size` elements."""

    batches = True

    def __init__(self, size: int, randomness: str = "error"):
        self.size, self.randomness = size, randomness

    def wrap(self, value: Any, batched: bool = True) -> Tensor:
        """A whole batch (first dim) as one element of it."""
        return tensor_at(LevelArray(self, value, batched))

    def run(self, op: Any, values: Sequence[Any], plan: Any = None) -> Any:
        """The results of an op for one element, computed for all of them at once."""
        whole, flags = zip(*map(_whole, values), strict=True)
        batched = any(any(f) if isinstance(f, list) else f for f in flags)
        with Below(self):
            if not batched:
                made = (op.on_any_level if isinstance(op, ViewOp) else op.run)(list(whole))
            elif isinstance(op, FormulaOp):
                made = _by_formula(op, whole, flags, plan)
            elif isinstance(op, ReductionOp):
                made = _by_reduction(op, whole)
            elif isinstance(op, ViewOp):
                made = _batched_view(op).on_any_level(list(whole))
            else:
                made = rule_of(op)(op, list(whole), list(flags), self.size, values)
        if isinstance(made, tuple):
            return tuple(self.wrap(m, batched) for m in made)
        return self.wrap(made, batched)

    def write(self, op: Any, values: Sequence[Any], plan: Any) -> None:
        """An elementwise op written into its first argument, for the whole batch."""
        whole, flags = zip(*map(_whole, values), strict=True)
        if not flags[0] and any(flags):
            own = values[0]._array.spec.shape
            shape = (self.size, *plan.call.out_specs[0].shape)
            raise RuntimeError(
                f"output with shape {list(own)} doesn't match the broadcast shape {list(shape)}: "
                "vmap cannot write a batch into a tensor that is not one. Use the out-of-place op."
            )
        with Below(self):
            op.write(_prepared(op, whole, flags, plan) if any(flags) else list(whole), (0,))

    def draw(self, target: Tensor, again: Any, parameters: Sequence[Any], in_rows: bool) -> None:
        """Fill a tensor with random numbers, as this vmap's `randomness` has it.

        `again(tensor, parameters)` draws below; `in_rows` if its draws are not one an element.
        """
        check(self.randomness != "error", RuntimeError, RANDOM_ERROR)
        given: list[Any] = [lift(p, self) for p in parameters]
        same = self.randomness == "same"
        batched = any(_whole(p)[1] for p in given)
        check(not (same and batched), RuntimeError, SAME_FOR_ALL)
        array: Any = lift(target, self)._array
        with Below(self):
            if same or (not array.batched and array is target._array):
                below = [_whole(p)[0] for p in given]
                one = array.value[0].clone() if array.batched else array.value
                again(one, below)
                if array.batched:
                    array.value.copy_(one)
                return
            value = array.value
            if not array.batched:
                fresh = target._base is None and array.storage.version == 0
                check(fresh, RuntimeError, SAME_SPOT)  # else it was made for this draw
                made: Any = target
                value = made.new_empty((self.size, *target.shape))
                target._array = LevelArray(self, value, True)
            below = [self._spread(p) for p in given]
            for row in value.unbind(0) if in_rows else (value,):
                again(row, below)

    def _spread(self, parameter: Any) -> Any:
        if not isinstance(parameter, Tensor):
            return parameter
        array: Any = parameter._array
        return spread(array.value, array.batched, self.size)


def _whole(value: Any) -> tuple[Any, Any]:
    """An argument of one element as that of the batch, and whether it has the batch's dim."""
    if isinstance(value, Tensor):
        array: Any = value._array
        return array.value, array.batched
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        pairs = [_whole(v) for v in value]
        return type(value)(p[0] for p in pairs), [p[1] for p in pairs]
    return value, False


# formulas: batches have their dim in front, the rest broadcasts behind it


def _prepared(op: FormulaOp, whole: Sequence[Any], flags: Sequence[Any], plan: Any) -> list[Any]:
    """Operands in one dtype if they were of several, and with the batch's dim in line."""
    tensors = [(v, f) for v, f in zip(whole, flags, strict=True) if isinstance(v, Tensor)]
    ndim = max(v._array.spec.ndim - f for v, f in tensors)
    mixed = len({v._array.spec.dtype for v, _ in tensors}) > 1
    made = []
    for name, value, flag in zip(op.parameters, whole, flags, strict=True):
        if isinstance(value, Tensor):
            if mixed and name not in op.keeps:
                value = value.to(plan.compute)  # type: ignore[attr-defined]
            value = aligned(value, ndim) if flag else value
        made.append(value)
    return made


def _by_formula(op: FormulaOp, whole: Sequence[Any], flags: Sequence[Any], plan: Any) -> Any:
    values: list[Any] = _prepared(op, whole, flags, plan)
    if not op.rows:
        return op.run(values)
    ndim = max(v._array.spec.ndim for v in values if isinstance(v, Tensor)) - 1
    # rows are along dims counted from the front, so that all operands must have all of them
    values = [_filled(v, ndim + 1) if isinstance(v, Tensor) else v for v in values]
    if not isinstance(op, RowOp):
        return op.run([*values[:-1], tuple(d + 1 for d in values[-1])])
    alone = len(plan.call.out_specs[0].shape) == 0  # a row of one element
    if alone:
        values = [_filled(v, 2, after=True) if isinstance(v, Tensor) else v for v in values]
    if not flags[0]:
        first = values[0]
        size = next(v for v, f in zip(values, flags, strict=True) if f)._array.spec.shape[0]
        values[0] = first.expand((size, *first.shape[1:]))
    dims = (1,) if alone else tuple(d + 1 for d in wrap_dims(values[-1], ndim))
    made = op.run([*values[:-1], dims])
    return made.squeeze(-1) if alone else made  # type: ignore[attr-defined]


def _filled(value: Any, ndim: int, after: bool = False) -> Any:
    """A tensor with dims of size 1 in front (or behind), `ndim` in all."""
    shape = value._array.spec.shape
    ones = (1,) * (ndim - len(shape))
    return value.view((*shape, *ones) if after else (*ones, *shape)) if ones else value


def _by_reduction(op: ReductionOp, whole: Sequence[Any]) -> Any:
    value, dim, keepdim = whole[:3]
    ndim = value._array.spec.ndim - 1
    if ndim == 0:
        return op.run([value.unsqueeze(1), (1,), False, *whole[3:]])
    dims = wrap_dims(None if dim == () else dim, ndim)
    return op.run([value, tuple(d + 1 for d in dims), keepdim, *whole[3:]])


# views: the op's own map of layouts, applied to the layout of one element

_views: dict[Any, ViewOp] = {}


def _batched_view(op: ViewOp) -> ViewOp:
    found = _views.get(op)
    if found is not None:
        return found

    def batched(layout: Layout, *arguments: Any) -> Any:
        made = op.function(Layout(layout.shape[1:], layout.strides[1:], layout.offset), *arguments)

        def back(one: Layout) -> Layout:
            lead = layout.shape[0], layout.strides[0]
            return Layout((lead[0], *one.shape), (lead[1], *one.strides), one.offset)

        return back(made) if isinstance(made, Layout) else [back(one) for one in made]

    found = _views[op] = ViewOp(batched, absolute=op.absolute)
    found.name = op.name
    return found


# functions that make tensors like another: of a batch, they make a batch

LIKE = frozenset(
    "zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full "
    "new_empty_strided".split()
)


def _above(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the innermost transform makes of a call; NotImplemented where it goes on as always."""
    name = getattr(function, "__name__", "")
    special = calls.get(name)
    if special is not None:
        return special(function, args, kwargs)
    if name not in LIKE or not args:
        return NotImplemented
    frame = frame_of(args[:1])
    array = args[0]._array if frame is not None else None
    if array is None or not array.batched:
        return NotImplemented
    with Below(frame):
        one = function(modeled(array), *args[1:], **kwargs)
        whole = one.unsqueeze(0).expand((frame.size, *one.shape))
        order = sorted(range(one.ndim), key=lambda d: (-one.stride(d), d))
        packed = whole.permute((0, *(d + 1 for d in order))).contiguous().clone()
        back = sorted(range(one.ndim), key=order.__getitem__)
        whole = packed.permute((0, *(d + 1 for d in back)))
    return frame.wrap(whole)


def modeled(array: LevelArray) -> Any:
    """A tensor like one element of a batch: its first, or of the same shape if there is none."""
    value = array.value
    return value[0] if value.shape[0] else value.new_empty(array.spec.shape)


def _refusing(message: str) -> Any:
    def call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        check(not is_batched(args[0]), RuntimeError, message)
        return NotImplemented

    return call


def _copy(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`copy_` with a source of the target's level, so that gradients find it there."""
    frame = frame_of(args[:2])
    if frame is None or len(args) < 2:
        return NotImplemented
    arrays = [a._array if isinstance(a, Tensor) else None for a in args[:2]]
    here = [isinstance(a, LevelArray) and a.frame is frame for a in arrays]
    if here[1] and not here[0]:
        source = args[1]
        if modes.state.grad and needs_grad(source) and not source._array.batched:
            raise_to(frame, args[0])
        return NotImplemented
    if here[1] or not here[0]:
        return NotImplemented
    return function(args[0], lift(args[1], frame), *args[2:], **kwargs)


calls: dict[str, Any] = {  # by name: functions that run in their own way inside a batch
    "item": _refusing(ITEM),
    "__bool__": _refusing(CONTROL_FLOW),
    "copy_": _copy,
    "resize_": _refusing("vmap: resize_ is not supported: use views, slices or torch.cat"),
}
dispatch.above.append(_above)


def innermost() -> Any:
    """The innermost vmap in force; None outside."""
    return next((f for f in reversed(modes.state.levels) if f.batches), None)


__all__ = ["BatchFrame", "innermost", "lift"]
