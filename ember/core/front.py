"""The short way of Python's operators on small CPU tensors: compiled methods that run a plan
without Python in between (backends/cpu/front_text.py), and what they are told.

The methods know objects by where their parts lie in memory. Each place is asked of Python and tried
on a known object here; where one is not as expected, and in builds of Python without the lock, the
operators stay Python functions. EMBER_NATIVE_OPERATORS=0 leaves them that, too.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import sysconfig
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import native
from ember.backends.cpu.front_table import BLOCK, CALLABLES, ENTRIES, ENTRY, HEADER, RECIPE
from ember.backends.cpu.front_text import front_text
from ember.core import executor, modes
from ember.core.formula_node import FormulaNode
from ember.core.node import NO_EDGE, Node, Saved, made_at
from ember.core.node import _sequence as sequence
from ember.core.plan import NOTHING, Plan, Recipe
from ember.core.tensor import Tensor
from ember.device import CPU
from ember.dtypes import HALF, float32
from ember.kernel.array import Array, Exposed, Spec, Storage, contiguous_spec
from ember.layout import product
from ember.scalar.evaluate import single_ufunc

METH_O = 0x0008
MEMBER, OFFSET = 40, 16  # where a slot's descriptor points to its definition, and that to its place
UFUNC_FUNCTIONS, UFUNC_DATA = 32, 40
NEW_FROM_DESCR = 94  # place in NumPy's table of C functions
LARGEST = 1 << 12  # elements up to which a call is not worth a compiled loop or another thread
LESSONS = 4000  # entries written for one op before it is taken to have no steady shapes
MASK = (1 << 64) - 1


class Operator(NamedTuple):
    """A method of Tensor of two operands: its op, the Python function that it is otherwise, and
    whether it writes its first operand."""

    name: str
    op: Any
    run: Callable[[Any, Any], Any]
    writes: bool


class Odd(Exception):
    """Something in this Python or NumPy is not where it is expected."""


def _word(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


def _place(kinds: list[type], example: Any, name: str) -> int:
    """Where a slot of one of these classes lies: found on its descriptor, tried on an example."""
    kind = next(k for k in kinds if name in vars(k))
    descriptor = vars(kind)[name]
    if type(descriptor).__name__ != "member_descriptor":
        raise Odd(f"{kind.__name__}.{name} is no slot")
    place = _word(_word(id(descriptor) + MEMBER) + OFFSET)
    if not 16 <= place < kind.__basicsize__ or place % 8:
        raise Odd(f"{kind.__name__}.{name} lies at {place}")
    if _word(id(example) + place) != id(descriptor.__get__(example)):
        raise Odd(f"{kind.__name__}.{name} does not lie at {place}")
    return place


def _check_lists() -> None:
    marker = object()
    known = [marker]
    if _word(_word(id(known) + 24)) != id(marker):
        raise Odd("a list's elements lie elsewhere")


def _check_ndarray() -> None:
    nd = np.zeros((2, 3), np.float32)
    facts = nd.__array_interface__["data"][0], id(nd.dtype)
    flags = ctypes.c_int32.from_address(id(nd) + 64).value
    if (_word(id(nd) + 16), _word(id(nd) + 56)) != facts or flags & 0x501 != 0x501:
        raise Odd("an ndarray's parts lie elsewhere")


def _new_object() -> int:
    """The address of object.__new__'s function."""
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    return int(get(object, 65))  # Py_tp_new


def _new_ndarray() -> int:
    module = importlib.import_module("numpy._core._multiarray_umath")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _word(int(pointer(module._ARRAY_API, None)) + 8 * NEW_FROM_DESCR)


class Front:
    """The compiled operators of a process, and the table that they look into."""

    def __init__(self, operators: list[Operator]):
        if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise Odd("not CPython with its lock")
        self.operators = operators
        self.words = (ctypes.c_int64 * (len(HEADER) + BLOCK * len(operators)))()
        self.kept: dict[int, Any] = {}  # what the words point to, by place
        self.recipes: list[Any] = []
        self.lessons = [0] * len(operators)
        self.checked: dict[Any, bool] = {}
        _check_lists()
        _check_ndarray()
        for name, value in _header().items():
            self._point(HEADER.index(name), value)
        for index in range(len(operators)):
            self._introduce(index)
        kinds = ["written" if o.writes else "binary" for o in operators]
        names = ["ember_front", *(f"ember_{i}" for i in range(len(kinds)))]
        tell, *addresses = native.functions(front_text(kinds), names)
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(tell)(ctypes.addressof(self.words))
        self.methods = [_method(o.name, a) for o, a in zip(operators, addresses, strict=True)]

    def _point(self, place: int, value: Any) -> None:
        """Write a word: a number, or where an object is, which then stays alive."""
        self.words[place] = value.value if isinstance(value, _Number) else id(value)
        self.kept[place] = value

    def _introduce(self, index: int) -> None:
        _, op, run, _ = self.operators[index]
        start = len(HEADER) + index * BLOCK

        def learn(a: Any, b: Any) -> Any:
            out = run(a, b)
            self._learn(index, a, b)
            return out

        def record(plan: Plan, a: Any, b: Any, out: Tensor) -> Tensor:
            if modes.state.grad and plan.differentiable:
                node = op.record(plan, (a, b, *op.defaults[2:]), out)
                if node is not None:
                    out._grad_fn, out._requires_grad = node, True
                    self._teach(index, plan, a, b)
            return out

        for name, function in (("learn", learn), ("run", run), ("record", record)):
            self._point(start + CALLABLES.index(name), function)

    def _learn(self, index: int, a: Any, b: Any) -> None:
        """Write the entry for operands like these, or for leaving their like to Python."""
        if modes.SPECIAL[0] != modes.LAYOUTS[0] or type(a) is not Tensor:
            self._meet(type(a))
            return
        first = a._array.spec
        second = b._array.spec if isinstance(b, Tensor) else type(b)
        _, op, run, writes = self.operators[index]
        self.lessons[index] += 1
        if self.lessons[index] > LESSONS:
            self._point(len(HEADER) + index * BLOCK + CALLABLES.index("learn"), run)
            return
        start = ("write",) if writes else ()
        plan = op.plans.get((*start, first, second, *op.key_tail()))
        facts = None if plan is None else self._facts(plan, first, second)
        if plan is not None:
            self._write(index, first, second, facts or {"plan": plan})

    def _teach(self, index: int, plan: Plan, a: Any, b: Any) -> None:
        """Add how runs like this one are recorded to their entry."""
        first = a._array.spec
        second = b._array.spec if isinstance(b, Tensor) else type(b)
        start = self._start(index, first, second)
        if self.kept.get(start + ENTRY.index("plan")) is plan:
            for mask in (1, 2, 3):
                recipe, place = plan.recipes.get(mask), start + ENTRY.index(f"recipe_{mask}")
                if recipe is not None and recipe.any and not self.words[place]:
                    self._point(place, self._recipe(index, plan, recipe))

    def _recipe(self, index: int, plan: Plan, recipe: Recipe) -> _Number:
        """A recipe as words; like all that compiled code may be reading, it is never freed."""
        names = [name for name, _ in recipe.saves]
        wanted = sum(1 << i for i, (_, goes) in enumerate(recipe.edges) if goes)
        result = self.operators[index].op.output if recipe.saves_result else None
        known = {
            "kind": id(recipe.kind), "out_specs": id(plan.call.out_specs), "recipe": id(recipe),
            "wanted": wanted, "any_saved": bool(names or result), "saves": len(names),
            "result": id(result) if result else 0,
        }  # fmt: skip
        words = [known[name] for name in RECIPE]
        for name, position in recipe.saves:
            words += [id(name), plan.positions.index(position)]
        made = (ctypes.c_int64 * len(words))(*words)
        self.recipes.append((made, plan, recipe, names, result))
        return _Number(ctypes.addressof(made))

    def _meet(self, kind: type) -> None:
        """Let parameters go the short way, once there are any."""
        if kind.__name__ == "Parameter" and kind.__module__ == "ember.nn.parameter":
            self._point(HEADER.index("parameter"), kind)

    def _start(self, index: int, first: Spec, second: Any) -> int:
        """Where the entry for two keys begins."""
        place = (((id(first) * 1099511628211 + id(second)) * -7046029254386353131) & MASK) >> 40
        return len(HEADER) + index * BLOCK + len(CALLABLES) + place % ENTRIES * len(ENTRY)

    def _write(self, index: int, first: Spec, second: Any, facts: dict[str, Any]) -> None:
        start = self._start(index, first, second)
        for offset in range(len(ENTRY)):
            self.words[start + offset] = 0
        before = [self.kept.pop(start + offset, None) for offset in range(len(ENTRY))]
        for name, value in {**facts, "first": first, "second": second}.items():
            self._point(start + ENTRY.index(name), value)
        del before

    def forget(self) -> None:
        """Empty the tables: plans are not what they were."""
        for place in list(self.kept):
            if place >= len(HEADER) and (place - len(HEADER)) % BLOCK >= len(CALLABLES):
                self.words[place] = 0
                del self.kept[place]

    def _facts(self, plan: Plan, first: Spec, second: Any) -> dict[str, Any] | None:
        """The entry of a plan; None if it is nothing but a small loop of NumPy's."""
        call = plan.call
        ufunc = single_ufunc(call.roots, list(call.names))
        out, specs = call.out_specs[0], [s for s in call.in_specs if isinstance(s, Spec)]
        compute = call.compute
        plain = (
            ufunc is not None
            and call.writes in ((), (0,))
            and compute not in HALF
            and not call.keeps
        )
        small = 0 < out.numel <= LARGEST and out.contiguous and out.device is CPU
        fitting = all(s.dtype is compute and s.contiguous and s.device is CPU for s in specs)
        if not (plain and small and fitting and call.in_specs == (first, second)):
            return None
        is_number = not isinstance(second, Spec)
        if is_number and (second not in (float, int) or compute.numpy.char not in "fd"):
            return None
        types = f"{compute.numpy.char * 2}->{out.dtype.numpy.char}"
        if types not in ufunc.types:
            return None
        runs = _runs(out, [_shape_of(s) for s in call.in_specs])
        loop = _loop(ufunc, ufunc.types.index(types))
        if runs is None or not self._right(ufunc, compute.numpy, out.dtype.numpy, loop):
            return None
        inner, steps = runs
        size, wide = compute.itemsize, out.dtype.itemsize
        strides = [0 if product(_shape_of(s)) == 1 else size for s in call.in_specs]
        found = {
            "number": size if is_number else 0, "loop": loop[0], "data": loop[1],
            "inner": inner, "outer": out.numel // inner, "ndim": out.ndim,
            "stride_first": strides[0], "stride_second": strides[1], "stride_out": wide,
            "step_first": steps[0] * size, "step_second": steps[1] * size,
            "step_out": inner * wide,
        }  # fmt: skip
        dims = (ctypes.c_int64 * max(out.ndim, 1))(*out.shape)
        descr = compute.numpy
        return {
            **{name: _Number(value) for name, value in found.items()},
            "plan": plan, "spec": out, "device": out.device, "descr": out.dtype.numpy,
            "dims": _Number(ctypes.addressof(dims), dims),
            "descr_first": descr, "descr_second": descr,
        }  # fmt: skip

    def _right(self, ufunc: Any, kind: Any, wanted: Any, loop: tuple[int, int]) -> bool:
        """Whether a loop gives what its ufunc gives; tried once."""
        key = ufunc, kind.char
        if key not in self.checked:
            a, b = np.arange(1, 12).astype(kind), np.arange(13, 2, -1).astype(kind)
            out, count = np.zeros(11, wanted), ctypes.c_int64(11)
            pointers = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in (a, b, out)))
            strides = (ctypes.c_int64 * 3)(a.itemsize, b.itemsize, out.itemsize)
            void = ctypes.c_void_p
            function = ctypes.PYFUNCTYPE(None, void, void, void, void)(loop[0])
            function(pointers, ctypes.addressof(count), strides, loop[1])
            self.checked[key] = bool((out == ufunc(a, b)).all())
        return self.checked[key]


class _Number:
    """A word that is a number, and what has to live as long as it is there."""

    def __init__(self, value: int, kept: Any = None):
        self.value, self.kept = value, kept


def _examples() -> dict[str, tuple[list[type], Any]]:
    """Objects with slots, by the name they have in the header, and the classes that name those."""
    nd = np.zeros(1, np.float32)
    array = Array(Storage(nd, CPU), contiguous_spec((1,), float32, CPU), 0, nd)
    node: Any = object.__new__(FormulaNode)
    node.edges, node.out_specs, node.sequence, node.recipe, node.saved = (), (array,), 7, nd, {}
    # Not made as others are: hooks of the program's, or its inference mode, are not for this one.
    saved: Any = object.__new__(Saved)
    saved.array, saved.version, saved.is_output = array, array.storage.version, False
    saved.node, saved.output_nr, saved.leaf, saved.hooks = None, 7, None, None
    return {
        "array": ([Array], array), "storage": ([Storage], array.storage),
        "node": ([FormulaNode, Node], node), "saved": ([Saved], saved),
    }  # fmt: skip


def _header() -> dict[str, Any]:
    """What the methods know of objects, by name."""
    found: dict[str, Any] = {
        "special": modes.SPECIAL, "layouts": modes.LAYOUTS, "slot": executor._slot,
        "made_at": made_at, "state": modes.state,
        "none": None, "false": False, "true": True, "zero": 0,
        "no_edge": NO_EDGE, "nothing_saved": NOTHING, "sequence": sequence,
        "tensor": Tensor, "parameter": Tensor, "array": Array, "storage": Storage,
        "exposed": Exposed, "ndarray": np.ndarray, "saved": Saved,
        "no_arguments": (),
    }  # fmt: skip
    examples = _examples()
    for name in HEADER:
        kind, _, part = name.partition("_")
        if kind == "name":
            found[name] = sys.intern(f"_{part}")
        elif kind == "word":
            found[name] = sys.intern(part)
        elif kind in examples and part:
            found[name] = _Number(_place(*examples[kind], part))
    found["new_object"] = _Number(_new_object())
    found["new_ndarray"] = _Number(_new_ndarray())
    return found


def _shape_of(spec: Any) -> tuple[int, ...]:
    return spec.shape if isinstance(spec, Spec) else ()


def _loop(ufunc: Any, index: int) -> tuple[int, int]:
    """The inner loop of a ufunc for its types at `index`, and the data that it is given."""
    functions, data = (_word(id(ufunc) + place) for place in (UFUNC_FUNCTIONS, UFUNC_DATA))
    return _word(functions + 8 * index), _word(data + 8 * index) if data else 0


def _runs(out: Spec, shapes: list[tuple[int, ...]]) -> tuple[int, list[int]] | None:
    """The length of the runs in which all operands are dense or one element, and by how many
    elements each moves on from run to run; None where there are no such runs."""
    inner = out.numel
    for shape in shapes:
        count = product(shape)
        if count == 1 or count == out.numel:
            continue
        own = shape[next((i for i, n in enumerate(shape) if n != 1), 0) :]
        if own != out.shape[out.ndim - len(own) :]:
            return None
        inner = min(inner, count)
    counts = [product(shape) for shape in shapes]
    if any(c not in (1, inner, out.numel) for c in counts):
        return None
    return inner, [inner if c == out.numel and c != inner else 0 for c in counts]


def _method(name: str, address: int) -> Any:
    """A method of Tensor that is compiled."""
    definition = native._MethodDefinition(name.encode(), address, METH_O, None)
    native._alive.append(definition)
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    return make(Tensor, ctypes.addressof(definition))


def open_front(operators: list[Operator]) -> Front | None:
    """Compile the operators and make them Tensor's; None where that cannot be."""
    try:
        front = Front(operators)
    except (Odd, AttributeError, ImportError, OSError, RuntimeError):
        return None
    modes.on_default_dtype(front.forget)
    for operator, method in zip(operators, front.methods, strict=True):
        setattr(Tensor, operator.name, method)
        if operator.writes:
            operator.op.short_write = method
        else:
            operator.op.short = method
    return front
