"""Ember from the inside: the whole way down, in one small program. Run it: `python docs/inside.py`.

    formula -> Expr -> evaluation and derivative -> Call -> executor -> Array -> Tensor -> engine

Each chapter rebuilds one part in miniature and checks itself with assertions. Where the miniature
stops short, the comment says what the real part adds and where it lives. The last chapter runs
one computation twice, here and with `import ember`, and finds the same numbers.
"""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import numpy as np

# --- 1. A formula is a graph (ember/scalar/expr.py) --------------------------------------------
#
# An op is written once, as a Python function of one element. Called with variables instead of
# numbers it leaves a graph: an Expr. From that one graph follow the kernel and the derivative.
# Equal expressions are one object, so a part that occurs twice is found by identity and computed
# once.

_known: dict[tuple, Expr] = {}  # Ember's table holds its entries weakly


class Expr:
    def __add__(self, other):
        return make("add", self, other)

    def __sub__(self, other):
        return make("sub", self, other)

    def __mul__(self, other):
        return make("mul", self, other)

    def __truediv__(self, other):
        return make("div", self, other)

    def __gt__(self, other):
        return make("gt", self, other)

    def __bool__(self):
        raise TypeError("a formula has no truth value: use where(condition, a, b), not `if`")


def make(op, *args, value=None):
    args = tuple(a if isinstance(a, Expr) else make("const", value=a) for a in args)
    if op == "mul":  # the few simplifications that never change a value
        for one, other in (args, args[::-1]):
            if one.op == "const" and one.value == 1:
                return other
    key = (op, args, type(value), repr(value))
    if key not in _known:
        made = _known[key] = Expr()
        made.op, made.args, made.value = op, args, value
    return _known[key]


def var(name):
    return make("var", value=name)


def primitive(name):
    return lambda *args: make(name, *args)


exp, log, tanh, sqrt, where = map(primitive, ("exp", "log", "tanh", "sqrt", "where"))

assert var("x") * 2 + 1 is var("x") * 2 + 1
assert var("x") * 1 is var("x")


def topological(root):
    """Every node below the root, arguments before their users."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack += [(node, True), *((a, False) for a in reversed(node.args))]
    return order


# --- 2. What the primitives mean (ember/scalar/primitives.py) ----------------------------------
#
# A row: the NumPy function, and the partial derivatives as formulas of the arguments and the
# result y. The result is at hand in the backward pass, so tanh' is 1 - y*y and exp' is y. Ember
# has about a hundred rows; each carries its C text too, from which GPU kernels are made.

TABLE = {
    "add": (np.add, lambda a, b, y: (1, 1)),
    "sub": (np.subtract, lambda a, b, y: (1, -1)),
    "mul": (np.multiply, lambda a, b, y: (b, a)),
    "div": (np.divide, lambda a, b, y: (make("div", 1, b), make("div", y * -1, b))),
    "exp": (np.exp, lambda a, y: (y,)),
    "log": (np.log, lambda a, y: (make("div", 1, a),)),
    "tanh": (np.tanh, lambda a, y: (make("sub", 1, y * y),)),
    "sqrt": (np.sqrt, lambda a, y: (make("div", 0.5, y),)),
    "gt": (np.greater, None),
    "where": (np.where, None),
}

# --- 3. Evaluation (ember/scalar/evaluate.py) --------------------------------------------------
#
# The graph becomes the source of a Python function, one line a node. This is the reference meaning
# of every op and the path of small arrays; compilers to machine code start from the same graph.


def compile_numpy(root, names):
    scope, lines, text = {}, [], {}
    for count, node in enumerate(topological(root)):
        text[node] = f"t{count}"
        if node.op == "var":
            text[node] = node.value
        elif node.op == "const":
            scope[text[node]] = node.value
        else:
            scope[f"f{count}"] = TABLE[node.op][0]
            arguments = ", ".join(text[a] for a in node.args)
            lines.append(f"    {text[node]} = f{count}({arguments})\n")
    source = f"def formula({', '.join(names)}):\n{''.join(lines)}    return {text[root]}\n"
    exec(source, scope)
    return scope["formula"]


def softplus(x):
    return log(exp(x) + 1)


assert compile_numpy(softplus(var("x")), ["x"])(0.0) == np.log(2)

# --- 4. The derivative (ember/scalar/diff.py) --------------------------------------------------
#
# Forward through the graph: the change of each node from the changes of its arguments. `where`
# stays outermost. The derivative of where(x > 0, sqrt(x), 0) is where(x > 0, g / (2 sqrt(x)), 0),
# which is 0 at 0; going backward instead would multiply an infinite slope by 0, and give NaN.


def tangent(root, name, seed):
    """The derivative by one variable, times the seed; None if it is zero everywhere."""
    change = {}
    for node in topological(root):
        change[node] = None
        if node.op == "var" and node.value == name:
            change[node] = seed
        elif node.op == "where":
            condition, a, b = node.args
            if change[a] is not None or change[b] is not None:
                parts = [0 if change[p] is None else change[p] for p in (a, b)]
                change[node] = where(condition, *parts)
        elif node.args and TABLE[node.op][1]:
            for arg, slope in zip(node.args, TABLE[node.op][1](*node.args, node)):
                if change[arg] is not None:
                    part = make("mul", change[arg], slope)
                    change[node] = part if change[node] is None else change[node] + part
    return change[root]


x = var("x")
slope = compile_numpy(tangent(softplus(x), "x", make("const", value=1.0)), ["x"])
assert abs(slope(0.3) - 1 / (1 + np.exp(-0.3))) < 1e-12  # the sigmoid, as it should be
careful = tangent(where(x > 0, sqrt(x), 0.0), "x", make("const", value=1.0))
with np.errstate(all="ignore"):
    assert compile_numpy(careful, ["x"])(np.zeros(1)) == 0

# --- 5. Views are layouts (ember/layout.py) ----------------------------------------------------
#
# A storage is a block of memory. Shape, strides and offset say which of its elements an array
# shows, so a view computes a few integers, calls no backend, and costs the same on every device.


class Layout(NamedTuple):
    shape: tuple
    strides: tuple
    offset: int = 0

    def transposed(self):
        return Layout(self.shape[::-1], self.strides[::-1], self.offset)

    def selected(self, index):
        start = self.offset + index * self.strides[0]
        return Layout(self.shape[1:], self.strides[1:], start)


def packed(shape):
    steps = [1, *itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b)]
    return Layout(tuple(shape), tuple(reversed(steps[: len(shape)])))


assert packed((2, 3)) == Layout((2, 3), (3, 1), 0)
assert packed((2, 3)).transposed().selected(1) == Layout((2,), (3,), 1)  # the column in the middle

# --- 6. Devices (ember/backends/) --------------------------------------------------------------
#
# A device is a memory and kernels. A simulated GPU has the CPU's kernels and a memory of its own:
# it fills up, gives back, and is reached from elsewhere only through `copy`, which every byte
# between devices passes. That is how Ember knows all copies, and why programs written here run on
# real GPUs: what they must not do fails here too.


class OutOfMemory(RuntimeError):
    pass


class Device:
    def __init__(self, name, capacity):
        self.name, self.capacity, self.allocated = name, capacity, 0


CPU, GPU = Device("cpu", float("inf")), Device("cuda:0", 4096)
copies = []


class Storage:
    """Memory on one device. The version counts writes; views share it."""

    def __init__(self, nbytes, device):
        self.device = None
        if device.allocated + nbytes > device.capacity:
            raise OutOfMemory(f"{device.name} is out of memory: tried to allocate {nbytes} bytes")
        self.memory, self.device, self.version = np.zeros(nbytes // 8), device, 0
        device.allocated += nbytes

    def __del__(self):
        if self.device:
            self.device.allocated -= self.memory.nbytes


class Array(NamedTuple):
    """All that executors and kernels see: a storage and a layout. (Ember's has a dtype as well.)"""

    storage: Storage
    layout: Layout

    def host(self):
        """The elements for the kernels, sharing the memory."""
        shape, strides, offset = self.layout
        steps = tuple(8 * s for s in strides)
        return np.lib.stride_tricks.as_strided(self.storage.memory[offset:], shape, steps)


def empty(shape, device):
    layout = packed(shape)
    return Array(Storage(8 * int(np.prod(shape)), device), layout)


def copy(array, device):
    made = empty(array.layout.shape, device)
    made.host()[...] = array.host()
    if device is not array.storage.device:
        copies.append((array.storage.device.name, device.name, made.storage.memory.nbytes))
    return made


# --- 7. Calls and the executor (ember/kernel/call.py, ember/core/executor.py) ------------------
#
# A Call says what to compute without the data. It is made once for an op and the specs (shape,
# device) of its operands, then kept: running an op again is one look-up and one kernel call. The
# executor is a slot below autograd, so that forward, backward and optimizer are one stream of
# Calls. Eager runs each at once; others record the stream and compile it whole.


class Call(NamedTuple):
    name: str
    kernel: object
    shape: tuple
    device: Device


def eager(call, operands):
    result = empty(call.shape, call.device)
    result.host()[...] = call.kernel(*(a.host() for a in operands))
    return result


executor = [eager]

# --- 8. Tensors and the funnel (ember/core/dispatch.py, formula.py) ----------------------------
#
# Tensor = Array + history. Every op passes one funnel, which alone knows of devices, broadcasting
# and recording. What it records is a Node: the derivative as an op again (so gradients have
# gradients) and what that reads. Saved values remember the version they had.


class Tensor:
    def __init__(self, array, node=None, requires_grad=False):
        self.array, self.node, self.grad = array, node, None
        self.requires_grad = requires_grad or node is not None

    shape = property(lambda self: self.array.layout.shape)
    device = property(lambda self: self.array.storage.device)

    def numpy(self):
        if self.device is not CPU:
            raise TypeError(
                f"can't convert a {self.device.name} tensor to numpy: use .to(CPU) first"
            )
        return self.array.host()

    def to(self, device):
        return record(copy(self.array, device), [self], lambda g: [g.to(self.device)])

    def t(self):  # a view: the same storage, another layout
        array = Array(self.array.storage, self.array.layout.transposed())
        return record(array, [self], lambda g: [g.t()])

    def sum_to(self, shape):
        extra = len(self.shape) - len(shape)
        dims = tuple(d for d, n in enumerate(self.shape) if d < extra or shape[d - extra] != n)
        call = Call("sum", lambda a: a.sum(dims).reshape(shape), shape, self.device)
        ones = tensor(np.ones(self.shape), self.device)
        return record(executor[0](call, [self.array]), [self], lambda g: [mul(g, ones)])

    def add_(self, number):  # a write: counted, so that a saved value notices
        self.array.host()[...] += number
        self.array.storage.version += 1
        return self


def tensor(values, device=CPU, requires_grad=False):
    values = np.asarray(values, float)
    array = empty(values.shape, CPU)
    array.host()[...] = values
    return Tensor(array if device is CPU else copy(array, device), None, requires_grad)


class Node(NamedTuple):
    number: int
    inputs: list
    backward: object


_numbers = itertools.count()


def record(array, inputs, backward):
    needed = any(i.requires_grad for i in inputs)
    return Tensor(array, Node(next(_numbers), inputs, backward) if needed else None)


class Op:
    """An elementwise op. The formula is read once; calls are planned once for each set of specs."""

    def __init__(self, formula):
        self.names = formula.__code__.co_varnames[: formula.__code__.co_argcount]
        self.name, self.root = formula.__name__, formula(*map(var, self.names))
        self.plans, self.gradients = {}, {}

    def __call__(self, *inputs):
        key = tuple((i.shape, i.device) for i in inputs)
        if key not in self.plans:
            self.plans[key] = self.plan(inputs)
        saved = [(i, i.array.storage.version) for i in inputs]
        out = executor[0](self.plans[key], [i.array for i in inputs])
        return record(out, inputs, lambda g: self.backward(g, saved))

    def plan(self, inputs):
        places = {i.device for i in inputs}
        if len(places) > 1:
            who = ", ".join(f"{n} is on {i.device.name}" for n, i in zip(self.names, inputs))
            raise RuntimeError(f"Expected all tensors to be on the same device: {who}")
        shape = np.broadcast_shapes(*(i.shape for i in inputs))
        kernel = compile_numpy(self.root, self.names)
        return Call(self.name, kernel, shape, places.pop())

    def backward(self, g, saved):
        for value, version in saved:
            if value.array.storage.version != version:
                raise RuntimeError("a value needed for the gradient was modified in place")
        inputs = [value for value, _ in saved]
        parts = [self.gradient(n) if i.requires_grad else None for n, i in zip(self.names, inputs)]
        found = [part and part(g, *inputs) for part in parts]
        return [f and f.sum_to(i.shape) for f, i in zip(found, inputs)]

    def gradient(self, name):  # derived from the formula, and an Op like any other
        if name not in self.gradients:
            op = self.gradients[name] = Op.__new__(Op)
            seed = "g" + "_" * (self.names[0].count("_") + 1)  # the gradient of g has one more
            op.name, op.names = f"{self.name}_backward_{name}", (seed, *self.names)
            op.root = tangent(self.root, name, var(seed))
            op.plans, op.gradients = {}, {}
        return self.gradients[name] if self.gradients[name].root is not None else None


@Op
def add(a, b):
    return a + b


@Op
def mul(a, b):
    return a * b


@Op
def gelu(x):  # the whole definition of an op: everything else is derived
    return x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1)


# --- 9. The engine (ember/core/engine.py) ------------------------------------------------------
#
# Backward runs the nodes from the newest to the oldest: when a node's turn comes, all gradients of
# its result have arrived. A heap instead of recursion, so that a graph may be any length deep.


def backward(out):
    waiting, heap = {}, []

    def deliver(value, grad):
        if value.node is None:
            if value.requires_grad:
                value.grad = grad if value.grad is None else add(value.grad, grad)
            return
        number = value.node.number
        if number in waiting:
            waiting[number] = (value.node, add(waiting[number][1], grad))
        else:
            waiting[number] = (value.node, grad)
            heapq.heappush(heap, -number)

    deliver(out, tensor(np.ones(out.shape), out.device))
    while heap:
        node, grad = waiting.pop(-heapq.heappop(heap))
        for value, part in zip(node.inputs, node.backward(grad)):
            if part is not None:
                deliver(value, part)


a, b = tensor([[1.0, 2.0]], requires_grad=True), tensor([[3.0], [4.0]], requires_grad=True)
backward(add(mul(a, b), a))
assert a.grad.numpy().tolist() == [[9, 9]]  # 3 + 4 from the broadcast product, 1 + 1 from the sum
assert b.grad.numpy().tolist() == [[3], [3]]


def refused(attempt, words):
    try:
        attempt()
    except (RuntimeError, TypeError) as error:
        return words in str(error)
    return False


# A write between forward and backward is noticed; on a simulated GPU so are mixed devices, a look
# from the host, and a memory that is full.
written = mul(a, b)
b.add_(1.0)
assert refused(lambda: backward(written), "modified in place")
assert refused(lambda: add(a, b.to(GPU)), "a is on cpu, b is on cuda:0")
assert refused(lambda: b.to(GPU).numpy(), "can't convert a cuda:0 tensor")
assert refused(lambda: tensor(np.zeros(1000), GPU), "tried to allocate 8000 bytes")
assert GPU.allocated == 0  # and what was there is given back

# --- 10. The same with Ember -------------------------------------------------------------------


def through_the_miniature(values, weights):
    x = tensor(values, requires_grad=True)
    w = tensor(weights, GPU, requires_grad=True)
    y = mul(gelu(x.to(GPU)), w.t()).to(CPU)
    backward(y)
    return y.numpy(), x.grad.numpy(), w.grad.to(CPU).numpy()


def through_ember(values, weights):
    import ember as torch

    torch.cuda.simulate(1)
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    w = torch.tensor(weights, dtype=torch.float64, device="cuda", requires_grad=True)
    y = (torch.nn.functional.gelu(x.to("cuda"), approximate="tanh") * w.t()).cpu()
    y.sum().backward()
    return y.detach().numpy(), x.grad.numpy(), w.grad.cpu().numpy()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    for mine, embers in zip(through_the_miniature(*given), through_ember(*given)):
        assert np.allclose(mine, embers, rtol=1e-12, atol=1e-12)
    assert ("cuda:0", "cpu", 48) in copies
    print("The miniature and Ember agree.")
