"""Reductions: an associative combination of elements over some dims, every kernel and shape rule
from one formula."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ember import dtypes
from ember.core import dispatch, executor, modes
from ember.core.dispatch import RuleNode
from ember.core.lifting import lifted
from ember.core.op import Op
from ember.core.outputs import store
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Spec, contiguous_spec, spec_of
from ember.kernel.call import ReduceCall
from ember.layout import reduced_shape, wrap_dims
from ember.scalar.expr import var


def ints_to_int64(dtype: DType) -> DType:
    """Integers and bools add up in int64."""
    return dtypes.int64 if dtype.category < dtypes.FLOAT else dtype


def same(dtype: DType) -> DType:
    """The result has the input's dtype."""
    return dtype


def truth(dtype: DType) -> DType:
    """The result is a bool (a uint8 stays one, as in PyTorch)."""
    return dtype if dtype is dtypes.uint8 else dtypes.bool_


class ReductionOp(Op):
    """Combines the elements over `dim` (all dims by default). `zero` is the result for none, or
    None if there is none (then empty dims are an error); `promote` gives the dtype of accumulation
    and result."""

    def __init__(
        self,
        function: Any,
        *,
        zero: Any = None,
        promote: Any = same,
        accepts: frozenset[DType] = dtypes.ANY - {dtypes.complex32},
        takes_dtype: bool = False,
    ):
        super().__init__(function)
        combined = function(var("a"), var("b"))
        self.combine, self.zero, self.promote, self.accepts = combined.op, zero, promote, accepts
        self.parameters = (
            ("input", "dim", "keepdim", "dtype") if takes_dtype else ("input", "dim", "keepdim")
        )
        self.positional = 3
        self.defaults = [self.defaults[0], None, False, None][: len(self.parameters)]
        self.takes_dtype = takes_dtype
        self.plans = dispatch.new_plan_cache()

    def __call__(self, *args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        if modes.SPECIAL[0]:
            found = self.overridden(args, kwargs if out is None else {**kwargs, "out": out})
            if found is not NotImplemented:
                return found
        elif len(args) == 1 and not kwargs and out is None and isinstance(args[0], Tensor):
            return self.run([args[0], *self.defaults[1:]])
        if len(args) > 2 and all(isinstance(a, int) and not isinstance(a, bool) for a in args[1:]):
            args = (args[0], args[1:])
        values = self.bind(args, kwargs)
        if out is not None:
            return store(self.name, out, lambda: self.run(values), values)
        try:
            return self.run(values)
        except TypeError:
            if not dispatch.overridden_after_all(args, kwargs):
                raise
            return self(*args, **kwargs)

    def run(self, values: Sequence[Any]) -> Tensor:
        """Reduce bound arguments."""
        self.check_input(values[0])
        frame = None
        if modes.SPECIAL[0]:
            frame, values = lifted(dispatch.autocast(self.name, values))
        tensor, dim, keepdim = values[0], values[1], values[2]
        spec = tensor._array.spec
        if self.takes_dtype and values[3] is not None and values[3] is not spec.dtype:
            dtype = dtypes.as_dtype(self.name, values[3])
            return self.run([tensor.to(dtype), dim, keepdim, dtype])
        dim = tuple(dim) if isinstance(dim, list) else dim
        key = (spec, dim, bool(keepdim), values[3] if self.takes_dtype else None)
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = self.plan(spec, *key[1:])
        call, runner, dims = found
        slot = executor._slot[0]
        out: Tensor
        if frame is not None:
            out = frame.run(self, values)
        else:
            operand = tensor._array
            out = tensor_of(runner(operand) if slot is None else slot.run(call, runner, (operand,)))
        if (
            modes.state.grad
            and dispatch.needs_grad(tensor)
            and dispatch.is_differentiable(call.out_specs[0].dtype)
        ):
            node = dispatch.node_type(ReductionNode, self.name, values)(
                self, [tensor, dims, bool(keepdim), None][: len(self.parameters)], [tensor], [out]
            )
            node.dims = dims
            dispatch.attach(node, [out])
        return out

    def plan(self, spec: Spec, dim: Any, keepdim: bool, dtype: DType | None) -> Any:
        """The call, its runner and the dims."""
        dims = wrap_dims(dim if dim != () else None, spec.ndim)
        if spec.ndim == 0:
            dims = ()
        if spec.dtype not in self.accepts:
            raise dispatch.not_implemented(self.name, spec.dtype)
        if self.zero is None:
            empty = next((d for d in dims if spec.shape[d] == 0), None)
            check(
                empty is None,
                IndexError if dim is not None and dim != () else RuntimeError,
                f"{self.name}(): Expected reduction dim {empty} to have non-zero size."
                if dim is not None
                else f"{self.name}(): Expected reduction dim to be specified for input.numel() == "
                "0. Specify the reduction dim with the 'dim' argument.",
            )
        stored = dtype or self.promote(spec.dtype)
        shape = reduced_shape(spec.shape, dims, keepdim)
        call = ReduceCall(
            self.name,
            (spec,),
            (contiguous_spec(shape, stored, spec.device),),
            combine=self.combine,
            zero=self.zero,
            accumulate=stored,
            axes=dims,
            keepdim=keepdim,
        )
        return call, executor.prepare(call, spec.device), dims


@functools.lru_cache(maxsize=4096)
def _spread(reduced: Spec, spec: Spec, dims: tuple[int, ...]) -> Spec:
    """The spec of a reduced array that is repeated over the dims of the reduction."""
    kept = reduced.ndim == spec.ndim
    steps = iter(reduced.strides)
    strides = [
        next(steps) * (d not in dims) if kept or d not in dims else 0 for d in range(spec.ndim)
    ]
    return spec_of(spec.shape, tuple(strides), reduced.dtype, reduced.device)


class ReductionNode(RuleNode):
    """A recorded reduction: the rule sees g, and the result, expanded to the input's shape."""

    __slots__ = ("dims",)
    dims: tuple[int, ...]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Expand, then run the rule."""
        arguments: dict[str, Any] = {}
        for name, value in self.values.items():
            if name == "result":
                arguments[name] = self._expanded(value[0].unpack(self))
            elif name == "dim":
                arguments[name] = self.dims
            else:
                arguments[name] = value.unpack(self) if hasattr(value, "unpack") else value
        found = self.op.grad(self._expanded(grads[0]), **arguments)
        return (dispatch.unbroadcast(found, self._input_spec()),)

    def _input_spec(self) -> Spec:
        spec = self.specs[0]
        assert spec is not None
        return spec

    def _expanded(self, tensor: Any) -> Any:
        spec = self._input_spec()
        if not modes.state.grad and not modes.SPECIAL[0]:
            array = tensor._array
            wide = _spread(array.spec, spec, self.dims)
            return tensor_of(Array(array.storage, wide, array.offset))
        if tensor.dim() != spec.ndim:
            shape = tuple(1 if d in self.dims else n for d, n in enumerate(spec.shape))
            tensor = tensor.reshape(shape)
        return tensor.expand(spec.shape)
