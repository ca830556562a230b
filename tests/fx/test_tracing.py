"""Graphs that tracing gives: their nodes and code are PyTorch's (recorded from PyTorch 2.13)."""

import gc
import math
import operator
import pickle
from typing import NamedTuple

import pytest

import ember as torch
from ember import fx, nn
from ember.core import modes
from ember.fx.proxy import TraceError


class Net(nn.Module):
    """Everything that a tracer meets: leaves, a Sequential, parameters, buffers, methods."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)
        self.p = nn.Parameter(torch.ones(4))
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
        self.register_buffer("b", torch.zeros(4))

    def forward(self, x, y=None, *, k: int = 3):
        z = self.seq(self.lin(x).relu()) + self.p * 2
        z = torch.cat([z, z], dim=-1)
        a, b = z.chunk(2, -1)
        w = z.view(z.shape[0], -1)[:, 1:3]
        return {"o": w, "t": (-a, b + self.b)}, torch.neg(z.T), 3 - z, x @ self.lin.weight.t(), 2**z


CODE = """


def forward(self, x, y = None, k : int = 3):
    lin = self.lin(x)
    relu = lin.relu();  lin = None
    seq_0 = getattr(self.seq, "0")(relu);  relu = None
    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None
    p = self.p
    mul = p * 2;  p = None
    add = seq_1 + mul;  seq_1 = mul = None
    cat = torch.cat([add, add], dim = -1);  add = None
    chunk = cat.chunk(2, -1)
    getitem = chunk[0]
    getitem_1 = chunk[1];  chunk = None
    getattr_1 = cat.shape
    getitem_2 = getattr_1[0];  getattr_1 = None
    view = cat.view(getitem_2, -1);  getitem_2 = None
    getitem_3 = view[(slice(None, None, None), slice(1, 3, None))];  view = None
    neg = -getitem;  getitem = None
    b = self.b
    add_1 = getitem_1 + b;  getitem_1 = b = None
    getattr_2 = cat.T
    neg_1 = torch.neg(getattr_2);  getattr_2 = None
    sub = 3 - cat
    lin_weight = self.lin.weight
    t = lin_weight.t();  lin_weight = None
    matmul = x @ t;  x = t = None
    pow_1 = 2 ** cat;  cat = None
    return ({'o': getitem_3, 't': (neg, add_1)}, neg_1, sub, matmul, pow_1)
    """


def test_code_is_pytorchs():
    assert fx.symbolic_trace(Net()).code == CODE


def test_traced_module_computes_the_same():
    net = Net()
    traced = fx.symbolic_trace(net)
    x = torch.linspace(-1, 1, 6).view(2, 3)
    (first, *rest), (same_first, *same) = net(x), traced(x)
    assert first["o"].tolist() == same_first["o"].tolist()
    assert all(a.tolist() == b.tolist() for a, b in zip(rest, same, strict=True))
    assert traced.lin.weight is net.lin.weight
    assert sorted(traced.state_dict()) == sorted(net.state_dict())


def test_graph_text_is_pytorchs():
    graph = fx.symbolic_trace(lambda x: torch.relu(x.sum(dim=1)) + 1).graph
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %sum_1 : [num_users=1] = call_method[target=sum](args = (%x,), kwargs = {dim: 1})\n"
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%sum_1,), "
        "kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, 1), "
        "kwargs = {})\n"
        "    return add"
    )


def test_functions_and_operators_are_targets():
    graph = fx.symbolic_trace(lambda x: nn.functional.gelu(x) * 2).graph
    targets = [n.target for n in graph.nodes if n.op == "call_function"]
    assert targets == [nn.functional.gelu, operator.mul]


def test_star_arguments_and_constants():
    def function(x, *args, **kw):
        return torch.add(x, args[0], alpha=float("inf")) + kw["a"] + torch.zeros(2)

    traced = fx.symbolic_trace(function)
    assert traced.code == (
        "\n\n\ndef forward(self, x, *args, **kw):\n"
        "    _args = args\n"
        "    _kw = kw\n"
        "    getitem = _args[0];  _args = None\n"
        "    add = torch.add(x, getitem, alpha = inf);  x = getitem = None\n"
        "    getitem_1 = _kw['a'];  _kw = None\n"
        "    add_1 = add + getitem_1;  add = getitem_1 = None\n"
        "    _tensor_constant0 = self._tensor_constant0\n"
        "    add_2 = add_1 + _tensor_constant0;  add_1 = _tensor_constant0 = None\n"
        "    return add_2\n    "
    )
    assert traced(torch.ones(2), torch.ones(2), a=1).tolist() == [math.inf, math.inf]


def branching(x, b):
    return x + 1 if b else x - 1


def test_concrete_arguments_are_checked():
    traced = fx.symbolic_trace(branching, concrete_args={"b": True})
    assert "_assert = torch._assert(eq, 'b has been specialized to have value True" in traced.code
    assert traced(torch.zeros(1), True).tolist() == [1.0]
    with pytest.raises(AssertionError, match="b has been specialized to have value True"):
        traced(torch.zeros(1), False)


def test_nested_concrete_arguments():
    traced = fx.symbolic_trace(lambda d: d[0] + d[1], concrete_args={"d": (fx.PH, fx.PH)})
    assert "d_1, d_2, = fx_pytree.tree_flatten_spec([d], self._in_spec)" in traced.code
    assert traced((1, 2)) == 3


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, TraceError, "inputs to control flow"),
        (lambda x: list(x), TraceError, "Proxy object cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing"),
        (lambda x: int(x), TypeError, "int.. argument must be"),
        (lambda x: torch.add(x, object()), NotImplementedError, "argument of type"),
    ],
)
def test_what_needs_a_value_is_refused(function, error, text):
    with pytest.raises(error, match=text):
        fx.symbolic_trace(function)


def test_unpacking_knows_how_many():
    def function(x):
        first, second, third = x
        return third - first * second

    assert fx.symbolic_trace(function)((2, 3, 10)) == 4


class Leafy(fx.Tracer):
    """Keeps every module whole."""

    def is_leaf_module(self, m, module_qualified_name):
        """True."""
        return True


def test_leaf_modules_are_the_tracers_choice():
    net = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Sigmoid())
    plain = fx.Tracer().trace(net)
    assert [n.target for n in plain.nodes if n.op == "call_module"] == ["0.0", "0.1", "1"]
    whole = Leafy().trace(net)
    assert [n.target for n in whole.nodes if n.op == "call_module"] == ["0", "1"]


fx.wrap("own_length")


def own_length(x):
    return x.shape[0] * 10


@fx.wrap
def positive(x):
    return x if x.sum() > 0 else -x


def test_wrapped_functions_are_one_node():
    traced = fx.symbolic_trace(lambda x: positive(x) + own_length(x) + math.sqrt(x.numel()))
    called = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"]
    assert called == ["positive", "own_length", "add", "sqrt", "add"]
    assert traced(torch.tensor([-1.0, -2.0, -3.0, -4.0])).tolist() == [43.0, 44.0, 45.0, 46.0]
    assert own_length(torch.zeros(3)) == 30


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


@fx.wrap
def swapped(pair):
    return pair.second, pair.first


def test_code_is_traced_again_as_it_was():
    def function(x):
        return swapped(Pair(x, 3)), torch.zeros_like(x, device=torch.device("cpu"))

    traced = fx.symbolic_trace(function)
    name = f"{__name__.replace('.', '_')}"
    assert traced.code == (
        f'\ntorch.fx._symbolic_trace.wrap("{name}_swapped")\n\n'
        "def forward(self, x):\n"
        f"    pair = {name}_Pair(x, 3)\n"
        f"    swapped = {name}_swapped(pair);  pair = None\n"
        "    zeros_like = torch.zeros_like(x, device = device(type='cpu'));  x = None\n"
        "    return (swapped, zeros_like)\n    "
    )
    again = fx.symbolic_trace(pickle.loads(pickle.dumps(fx.symbolic_trace(traced))))
    assert again.code == traced.code and again(torch.ones(1))[0][0] == 3


def test_wrap_is_for_the_top_level():
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="Must be either a callable or string name"):
        fx.wrap(3)


def test_ops_look_for_proxies_only_while_there_are_some():
    gc.collect()  # proxies that failures of other tests keep
    before = modes.SPECIAL[0]
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    assert modes.SPECIAL[0] == before + 1
    del proxy
    gc.collect()
    assert modes.SPECIAL[0] == before
    traced = fx.symbolic_trace(lambda x: torch.ones(2) + x)
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]


def test_module_calls_are_as_before_after_a_failure():
    net = nn.Sequential(nn.ReLU())
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: net(x) if x > 0 else x)
    assert "__call__" not in vars(nn.Module) or not fx._symbolic_trace.is_fx_tracing()
    assert net(torch.tensor([-1.0])).tolist() == [0.0]


def test_parameter_shapes_can_be_constant():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            return x[: self.w.shape[0]] if self.w.ndim == 2 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Cut())
    sliced = next(n for n in graph.nodes if n.target is operator.getitem)
    assert sliced.args[1] == slice(None, 3, None)


def test_proxies_by_hand():
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    x = fx.Proxy(graph.placeholder("x"), tracer)
    y = torch.einsum("ij,jk->ik", (x, x))
    graph.output((torch.cat([y, x]) / 2).node)
    module = fx.GraphModule({}, graph)
    assert module(torch.eye(2)).tolist() == [[0.5, 0.0], [0.0, 0.5], [0.5, 0.0], [0.0, 0.5]]
    assert [n.name for n in graph.nodes] == ["x", "einsum", "cat", "truediv", "output"]
    assert graph._codegen is not None and list(graph.nodes)[1].args[1:] == (x.node, x.node)


class Recording(fx.Tracer):
    """Keeps the names of its nodes; like torchvision's, it does not know `proxy_factory_fn`."""

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
        """As the base."""
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr)
        self.__dict__.setdefault("names", []).append(proxy.node.name)
        return proxy


def test_reads_of_parameters_pass_create_proxy():
    tracer = Recording()
    tracer.trace(Net())
    assert "p" in tracer.names and "lin_weight" in tracer.names and tracer.names[0] == "x"


def test_tracers_of_other_packages_find_pytorchs_inner_names():
    inner = fx._symbolic_trace
    calls = []

    def call(mod, *args):
        calls.append(type(mod).__name__)
        return inner._orig_module_call(mod, *args)

    with inner._Patcher() as patcher:
        patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
        inner._patch_wrapped_functions(patcher)
        inner._autowrap_check(patcher, globals(), set())
        nn.ReLU()(torch.ones(1))
    nn.ReLU()(torch.ones(1))
    assert calls == ["ReLU"] and not isinstance(torch.ones(1), inner.ScriptObject)
    assert inner.compatibility(is_backward_compatible=True)(abs) is abs
