"""Ops given by a formula: elementwise ops and row programs. The formula is read once per set of
static arguments; from the reading come the kernel, the result's spec and the derivatives, which are
formula ops again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember import dtypes
from ember.core import dispatch, executor, modes
from ember.core.array import full
from ember.core.dispatch import NUMBERS, as_number, find_device, needs_grad
from ember.core.formula_node import FormulaNode
from ember.core.lifting import lifted
from ember.core.node import NO_EDGE, Node, Saved, edge_of, made_at
from ember.core.node import _sequence as sequence
from ember.core.op import Op
from ember.core.outputs import store
from ember.core.plan import NOTHING, Plan, Reading, Recipe, common, compares, floats, real_part
from ember.core.tensor import Tensor, tensor_of
from ember.core.writing import write
from ember.device import CPU
from ember.dtypes import dtype as DType
from ember.kernel.array import Spec, contiguous_spec, spec_of
from ember.kernel.call import MapCall
from ember.layout import broadcast_shapes, contiguous_strides, elementwise_strides
from ember.scalar.diff import adjoint, has_rows, tangent
from ember.scalar.expr import Expr, as_expr, make, substitute, var, variables
from ember.scalar.wirtinger import complex_gradient, mixes

__all__ = ["FormulaOp", "common", "compares", "floats", "real_part"]
_new = object.__new__
SHORT = frozenset((Tensor, int, float))  # types of the second operand that operators know


class FormulaOp(Op):
    """An elementwise op. `promote` is a promotion rule, `accepts` the dtypes it computes in,
    `keeps` parameters that neither promote nor are cast, `literals` numbers that are read into the
    formula when given for a parameter, `refuse` a check of the operands' dtypes that may raise."""

    rows = False
    checks: Any = None  # a function of the bound arguments that may raise
    takes_numbers = False  # whether numbers alone are operands too: torch.add(1, 2)
    # operators.py: the methods `a + b` and `a += b`, where the op is an operator
    short: Any = None
    short_write: Any = None
    frees_numbers = False  # whether a number saved for backward is freed as a tensor is
    # variables for the gradient and the result in derivatives; a derived op has others
    seed, output = "g", "result"

    def __init__(
        self,
        function: Any,
        *,
        promote: Any = common,
        accepts: frozenset[DType] = dtypes.ANY,
        keeps: Sequence[str] = (),
        literals: dict[str, tuple[Any, ...]] | None = None,
        writes: Sequence[str] = (),
        refusal: str | None = None,
        refuse: Any = None,
    ):
        super().__init__(function)
        self.promote, self.accepts, self.keeps = promote, accepts, frozenset(keeps)
        self.literals = [(literals or {}).get(p, ()) for p in self.parameters]
        self.writes = tuple(self.parameters.index(w) for w in writes)
        self.refusal, self.refuse = refusal, refuse
        self.unary_defaults = tuple(self.defaults[1:])
        self.unary_tail = tuple(dispatch.hashable(d) for d in self.unary_defaults)
        self.plans = dispatch.new_plan_cache()
        self.readings: dict[Any, Reading] = {}

    # calling
    def __call__(self, *args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        quick = modes.SPECIAL[0] == modes.LAYOUTS[0]  # no plan is for specs of sparse arrays
        if quick and args and not kwargs and out is None:
            input = args[0]
            if len(args) == 1:  # the short way of exp(x)
                if isinstance(input, Tensor):
                    plan = self.plans.get((input._array.spec, *self.unary_tail))
                    if plan is not None:
                        return self.execute(plan, (input, *self.unary_defaults))
            elif self.short is not None and len(args) == 2 and type(args[1]) in SHORT:
                if isinstance(input, Tensor):
                    return self.short(input, args[1])
        return self.call(args, kwargs, out)

    def call(self, args: Any, kwargs: dict[str, Any], out: Tensor | None = None) -> Any:
        """The long way, of any arguments."""
        if modes.SPECIAL[0]:
            found = self.overridden(args, kwargs if out is None else {**kwargs, "out": out})
            if found is not NotImplemented:
                return found
        values = [as_number(v) for v in self.bind(args, kwargs)]
        if self.checks is not None:
            self.checks(*values)
        if self.writes:
            return self.write(values, self.writes)
        if out is not None:
            return self.into(values, out)
        try:
            return self.run(values)
        except TypeError:
            if not dispatch.overridden_after_all(args, kwargs):
                raise
            return self.call(args, kwargs)

    def run(self, values: Sequence[Any]) -> Tensor:
        """A fresh result for bound arguments."""
        if modes.SPECIAL[0]:
            frame, values = lifted(dispatch.autocast(self.name, values))
            if frame is not None:
                return self.run_above(frame, values)
        key = self.key(values)
        plan = self.plans.get(key)
        if plan is None:
            moved = self.with_numbers_moved(values)
            if moved is not None:
                return self.run(moved)
            plan = self.plans[key] = self.plan(values, key)
        return self.execute(plan, values)

    def run_above(self, frame: Any, values: Sequence[Any]) -> Tensor:
        """The result for each element of a batch, recorded as one op on elements."""
        key = self.key(values)
        plan = self.plans.get(key)
        if plan is None:
            moved = self.with_numbers_moved(values)
            if moved is not None:
                return self.run_above(frame, moved)
            plan = self.plans[key] = self.plan(values, key)
        out: Tensor = frame.run(self, values, plan)
        tensors = [values[p] for p in plan.positions if isinstance(values[p], Tensor)]
        if plan.differentiable and modes.state.grad and any(map(needs_grad, tensors)):
            node = self.record(plan, values, out)
            if node is not None:
                out._grad_fn, out._requires_grad = node, True
        return out

    def execute(self, plan: Plan, values: Sequence[Any]) -> Tensor:
        """Run a plan and record it."""
        operands = []
        record = False
        for position in plan.positions:
            value = values[position]
            if isinstance(value, Tensor):
                operands.append(value._array)
                record = (
                    record
                    or value._requires_grad
                    or (value._base is not None and needs_grad(value))
                )
            else:
                operands.append(value)
        slot = executor._slot[0]
        array = (
            plan.runner(*operands)
            if slot is None
            else slot.run(plan.call, plan.runner, tuple(operands))
        )
        out = tensor_of(array)
        if record and plan.differentiable and modes.state.grad:
            node = self.record(plan, values, out)
            if node is not None:
                out._grad_fn, out._requires_grad = node, True
        return out

    def key(self, values: Sequence[Any]) -> Any:
        """What a plan depends on: specs, types of numbers, static arguments."""
        parts: list[Any] = []
        for value, default, literal in zip(values, self.defaults, self.literals, strict=True):
            if isinstance(value, Tensor):
                parts.append(value._array.spec)
            elif value is None:
                parts.append(None)
            elif isinstance(value, NUMBERS) and not (
                value == default and type(value) is type(default)
            ):
                parts.append((type(value), value) if value in literal else type(value))
            else:
                parts.append(dispatch.hashable(value))
        return tuple(parts)

    def key_tail(self) -> list[Any]:
        """The key's part for the arguments after the second, left at their defaults."""
        return [dispatch.hashable(d) for d in self.defaults[2:]]

    # planning
    def with_numbers_moved(self, values: Sequence[Any]) -> list[Any] | None:
        """The arguments with 0-dim CPU tensors moved to the GPU that the others are on; None if
        none has to."""
        if self.takes_numbers and not any(isinstance(v, Tensor) for v in values):
            if isinstance(values[0], NUMBERS):
                return [_number_tensor(values[0]), *values[1:]]
        named = list(zip(self.parameters, values, strict=True))
        device = find_device(self.name, named)
        moved = [
            v.to(device)  # type: ignore[attr-defined]
            if isinstance(v, Tensor) and v._array.spec.device is not device
            else v
            for v in values
        ]
        return moved if any(a is not b for a, b in zip(moved, values, strict=True)) else None

    def dynamic(self, key: Any) -> tuple[int, ...]:
        """The positions of operands: tensors and run-time numbers."""
        return tuple(i for i, part in enumerate(key) if isinstance(part, (Spec, type)))

    def read(self, values: Sequence[Any], key: Any, positions: tuple[int, ...]) -> Reading:
        """The formula for these static arguments."""
        static = tuple(None if i in positions else key[i] for i in range(len(key))), positions
        reading = self.readings.get(static)
        if reading is None:
            arguments = [
                var(p) if i in positions else values[i] for i, p in enumerate(self.parameters)
            ]
            count = self.positional
            keywords = dict(zip(self.parameters[count:], arguments[count:], strict=True))
            found = self.function(*arguments[:count], **keywords)
            roots = tuple(as_expr(r) for r in (found if isinstance(found, tuple) else (found,)))
            names = tuple(self.parameters[i] for i in positions)
            named = dict(zip(self.parameters, arguments, strict=True))
            reading = self.readings[static] = Reading(roots, names, self.keeps, named)
        return reading

    def plan(self, values: Sequence[Any], key: Any) -> Plan:
        """The plan for a key."""
        call, positions, reading = self.describe(values, key)
        return Plan(call, executor.prepare(call, call.out_specs[0].device), positions, reading)

    def describe(
        self, values: Sequence[Any], key: Any, target: Spec | None = None
    ) -> tuple[MapCall, tuple[int, ...], Reading]:
        """The call for a key, the positions of its operands and the formula; `target` is the spec
        of an array that the result is written into."""
        positions = self.dynamic(key)
        operands = [values[i] for i in positions]
        self.check_operands(values, operands)
        reading = self.read(values, key, positions)
        promoting = self._promoting(values, positions)
        if self.refuse is not None:
            self.refuse(
                [o.dtype if isinstance(o, Tensor) else dispatch.number_type(o) for o in operands]
            )
        compute, stored = self.promote(dispatch.promoted(promoting))
        if compute not in self.accepts:
            raise (
                RuntimeError(self.refusal)
                if self.refusal
                else dispatch.not_implemented(self.name, compute)
            )
        specs = tuple(o._array.spec if isinstance(o, Tensor) else type(o) for o in operands)
        tensors = [s for s in specs if isinstance(s, Spec)]
        shape = broadcast_shapes(*(s.shape for s in tensors))
        axes = self.axes(values, shape)
        if target is None:
            spread = [(s.shape, s.strides) for s in tensors]
            packed = contiguous_strides(shape)  # what PyTorch makes of row programs
            strides = packed if self.rows else elementwise_strides(shape, spread)
            outs = tuple(spec_of(shape, strides, stored, tensors[0].device) for _ in reading.roots)
        else:
            outs = (
                spec_of(shape, target.strides, stored, target.device)
                if shape == target.shape
                else target,
            )
        call = MapCall(
            self.name,
            specs,
            outs,
            roots=reading.roots,
            names=reading.names,
            compute=compute,
            keeps=reading.keeps,
            axes=axes,
        )
        return call, positions, reading

    def _promoting(self, values: Sequence[Any], positions: tuple[int, ...]) -> list[Any]:
        """What decides on the dtype: operands that are cast, and numbers in the formula."""
        return [
            v
            for i, v in enumerate(values)
            if self.parameters[i] not in self.keeps
            and (i in positions or (isinstance(v, NUMBERS) and v in self.literals[i]))
        ]

    def axes(self, values: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
        """The dims of a row; none for elementwise ops."""
        return ()

    # derivatives
    def gradient(self, plan: Plan, name: str) -> tuple[Any, tuple[str, ...]] | None:
        """The op that computes the gradient by one variable, and the names that it reads besides
        g."""
        is_complex = plan.compute.is_complex
        known = plan.reading.gradients
        key = (name, is_complex)
        if key not in known:
            expression = self.derive(plan, name, is_complex)
            if expression is None:
                known[key] = None
            else:
                names = tuple(v for v in variables(expression) if v != self.seed)
                known[key] = DerivedOp(self, name, expression, names, plan.reading.keeps), names
        found: tuple[Any, tuple[str, ...]] | None = known[key]
        return found

    def derive(self, plan: Plan, name: str, is_complex: bool) -> Expr | None:
        """The gradient by `name` as a formula of g, the variables and the result."""
        root, seed, output = plan.reading.roots[0], var(self.seed), var(self.output)
        if self._grad is not None:
            named = {**plan.reading.arguments, "g": seed, "result": output}
            found = self._grad(*(named[p] for p in self.rule_parameters))
            if not isinstance(found, tuple):
                found = (found,)
            part = dict(zip(self.parameters, found, strict=False)).get(name)
            return None if part is None else as_expr(part)
        if is_complex and mixes(root) and not has_rows(root):
            return complex_gradient(root, name, seed)
        if has_rows(root):
            found = adjoint(root, [name], seed)[name]
        else:
            found = tangent(root, name, make("conj", seed) if is_complex else seed)
        if found is None:
            return None
        if is_complex:
            found = make("conj", found)
        return substitute(
            found, lambda node: output if node is root and node.op not in ("var", "const") else None
        )

    def record(
        self, plan: Plan, values: Sequence[Any], out: Tensor, old: Tensor | None = None
    ) -> Node | None:
        """The node of a run; `old` is the value before the write, where the result replaced the
        first argument."""
        mask, bit = 0, 1
        for position in plan.positions:
            value = values[position]
            if isinstance(value, Tensor) and (
                value._requires_grad or (value._base is not None and value._base._requires_grad)
            ):
                mask |= bit
            bit <<= 1
        recipe = plan.recipes.get(mask)
        if recipe is None:
            recipe = plan.recipes[mask] = self._recipe(plan, mask)
        if not recipe.any:
            return None
        node: FormulaNode = _new(recipe.kind)
        node.edges = tuple(
            [edge_of(values[p]) if wanted else NO_EDGE for p, wanted in recipe.edges]
        )
        node.out_specs, node.sequence, node.recipe = plan.call.out_specs, next(sequence), recipe
        if made_at[0] is not None:
            node.__dict__["_made_at"] = made_at[0]()
        if recipe.saves or recipe.saves_result:
            saved: dict[str, Any] = {}
            for name, position in recipe.saves:
                value = values[position]
                if old is not None and value is values[0]:
                    value = old
                saved[name] = Saved(value) if isinstance(value, Tensor) else value
            if recipe.saves_result:
                saved[self.output] = Saved(out, True)
            node.saved = saved
        else:
            node.saved = NOTHING
        return node

    def _recipe(self, plan: Plan, mask: int) -> Recipe:
        """What recording does when the inputs of `mask` need gradients."""
        rules: list[Any] = []
        names: set[str] = set()
        for bit, name in enumerate(plan.reading.names):
            spec = plan.call.in_specs[bit]
            rule = None
            if mask >> bit & 1 and dispatch.is_differentiable(spec.dtype):
                rule = self.gradient(plan, name)
            if rule is not None:
                names.update(rule[1])
            rules.append(rule)
        positions = list(zip(plan.reading.names, plan.positions, strict=True))
        return Recipe(
            dispatch.node_type(FormulaNode, self.name, plan.call.in_specs),
            any(rules),
            tuple(rules),
            tuple((p, rule is not None) for p, rule in zip(plan.positions, rules, strict=True)),
            tuple((n, p) for n, p in positions if n in names),
            self.output in names,
            tuple(s if isinstance(s, Spec) else None for s in plan.call.in_specs),
            plan.axes,
            self.frees_numbers,
        )

    # writing
    def into(self, values: Sequence[Any], out: Tensor) -> Tensor:
        """The result stored in `out`, resized to fit; RuntimeError if its dtype cannot hold it."""
        return store(self.name, out, lambda: self.run(values), values)

    def inplace(self, *args: Any, **kwargs: Any) -> Any:
        """The op with its result written into its first argument."""
        if self.short_write is not None and len(args) == 2 and not kwargs:
            if type(args[1]) in SHORT and modes.SPECIAL[0] == modes.LAYOUTS[0]:
                return self.short_write(*args)
        return self.call_inplace(args, kwargs)

    def call_inplace(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """The long way of writing, of any arguments."""
        if modes.SPECIAL[0]:
            found = dispatch.overridden(getattr(Tensor, self.name + "_", self), args, kwargs)
            if found is not NotImplemented:
                return found
        values = [as_number(v) for v in self.bind(args, kwargs)]
        if self.checks is not None:
            self.checks(*values)
        return self.write(values, (0,))

    def write(self, values: Sequence[Any], targets: tuple[int, ...]) -> Any:
        """Run with results stored into the arguments at `targets`."""
        return write(self, values, targets)

    def blank_node(self, plan: Plan) -> Node:
        """The node of a write whose result depends on no recorded input."""
        node: FormulaNode = _new(dispatch.node_type(FormulaNode, self.name))
        node.edges, node.out_specs, node.sequence = (), plan.call.out_specs, next(sequence)
        node.recipe, node.saved = Recipe(None, False, (), (), (), False, (), ()), NOTHING
        return node


def _number_tensor(value: Any) -> Tensor:
    """A number as a tensor of 0 dims."""
    return tensor_of(full(contiguous_spec((), dispatch.number_type(value), CPU), value))


class DerivedOp(FormulaOp):
    """The gradient of a formula op by one variable: a formula of g, variables and the result.
    Derivable again."""

    def __init__(
        self,
        parent: FormulaOp,
        name: str,
        expression: Expr,
        names: tuple[str, ...],
        keeps: frozenset[str],
    ):
        self.name = f"{parent.name}_backward_{name}"
        self.__name__ = self.__qualname__ = self.name
        self.__doc__ = f"The gradient of {parent.name} by {name}."
        self.expression, self.rows = expression, parent.rows
        self.seed, self.output = parent.seed + "_", parent.output + "_"
        self.parameters = (parent.seed, *names, *(("axes",) if self.rows else ()))
        self.positional = len(self.parameters)
        self.defaults = [None] * self.positional
        self.literals = [()] * self.positional
        self.promote, self.accepts, self.keeps = common, dtypes.ANY, keeps
        self.writes, self.rule_parameters = (), ()
        self.refusal = self.refuse = self._grad = None
        self.plans, self.readings = dispatch.new_plan_cache(), {}
        self.unary_defaults = self.unary_tail = ()
        self.is_identity = expression is var(parent.seed)

    def read(self, values: Sequence[Any], key: Any, positions: tuple[int, ...]) -> Reading:
        """The formula that it is."""
        names = tuple(self.parameters[i] for i in positions)
        found = self.readings.get(names)
        if found is None:
            found = self.readings[names] = Reading((self.expression,), names, self.keeps, {})
        return found

    def derive(self, plan: Plan, name: str, is_complex: bool) -> Expr | None:
        """A slope of 0 is one too: the second derivative of relu is 0, not missing."""
        found = super().derive(plan, name, is_complex)
        return as_expr(0) if found is None and name not in self.keeps else found

    def axes(self, values: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the op that it derives from."""
        return values[-1] if self.rows else ()
