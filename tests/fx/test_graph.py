"""Graphs that are made and changed by hand, and modules of them."""

import copy
import pickle

import pytest

import ember as torch
from ember import fx, nn
from ember.fx.immutable_collections import immutable_list
from ember.fx.passes.shape_prop import ShapeProp


def small_graph():
    """add, relu; both returned."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    added = graph.call_function(torch.add, (x, 1))
    graph.output((graph.call_method("relu", (added,)), {"a": added}))
    return graph


def test_nodes_know_their_neighbours_and_users():
    x, added, relu, output = small_graph().nodes
    assert added.all_input_nodes == [x] and list(added.users) == [relu, output]
    assert added.prev is x and added.next is relu and x < added < relu
    assert repr(added) == "add" and added.args == (x, 1)
    assert added.format_node() == (
        "%add : [num_users=2] = call_function[target=torch.add](args = (%x, 1), kwargs = {})"
    )


def test_arguments_are_replaced_not_changed():
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.cat, ([x, x],))
    assert isinstance(node.args[0], immutable_list)
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        node.args[0].append(x)
    y = graph.placeholder("y")
    node.args = ([x, y],)
    assert list(y.users) == [node]
    node.update_kwarg("dim", 1)
    node.update_arg(0, [y])
    assert node.kwargs == {"dim": 1} and not x.users
    node.replace_input_with(y, x)
    assert list(x.users) == [node] and not y.users
    node.insert_arg(0, y)
    assert node.args == (y, [x])


def test_erasing_needs_no_users():
    graph = small_graph()
    _, added, relu, output = graph.nodes
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 2 users"):
        graph.erase_node(added)
    output.args = (added,)
    graph.erase_node(relu)
    assert [n.name for n in graph.nodes] == ["x", "add", "output"] and len(graph.nodes) == 3


def test_insertion_points():
    graph = small_graph()
    _, added, relu, _ = graph.nodes
    with graph.inserting_before(added):
        graph.call_function(torch.neg, (graph.find_nodes(op="placeholder")[0],))
    with graph.inserting_after(added):
        first = graph.call_function(torch.exp, (added,))
        graph.call_function(torch.log, (first,))
    assert [n.name for n in graph.nodes] == ["x", "neg", "add", "exp", "log", "relu", "output"]
    relu.replace_all_uses_with(first)
    assert not relu.users
    graph.lint()


def test_lint_finds_what_is_wrong():
    graph = small_graph()
    x, added, _, _ = graph.nodes
    added.append(x)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()
    foreign = fx.Graph().placeholder("z")
    other = fx.Graph()
    other.output(foreign)
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        other.lint()


def test_dead_code_goes_and_effects_stay():
    graph = fx.Graph()
    x = graph.placeholder("x")
    dead = graph.call_function(torch.exp, (x,))
    graph.call_function(torch.log, (dead,))
    graph.call_method("add_", (x, 1))
    graph.output(x)
    assert graph.eliminate_dead_code() is True
    assert [n.name for n in graph.nodes] == ["x", "add_", "output"]
    assert graph.eliminate_dead_code() is False


def test_graphs_are_copied_into_others():
    source, target = small_graph(), fx.Graph()
    values = {}
    result = target.graph_copy(source, values)
    target.output(result[0])
    assert [n.name for n in target.nodes] == ["x", "add", "relu", "output"]
    assert all(n.graph is target for n in target.nodes)
    assert fx.GraphModule({}, target)(torch.tensor([-3.0, 1.0])).tolist() == [0.0, 2.0]


def test_table(capsys):
    small_graph().print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].split() == ["placeholder", "x", "x", "()", "{}"] and len(lines) == 6


def test_wrong_targets_are_refused():
    graph = fx.Graph()
    with pytest.raises(ValueError, match="a Callable is expected"):
        graph.call_function("relu", ())
    with pytest.raises(ValueError, match="a str is expected"):
        graph.create_node("call_method", torch.relu)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return self.body(x) + self.shift


def test_recompiling_after_a_change():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    node = traced.graph.find_nodes(op="call_function", target=torch.relu)[0]
    node.target = torch.neg
    assert traced(torch.tensor([-1.0])).tolist() == [1.0]
    traced.recompile()
    assert traced(torch.tensor([-1.0])).tolist() == [2.0]
    assert "torch.neg(x)" in traced.code


def test_modules_from_names():
    graph = fx.Graph()
    x = graph.placeholder("x")
    called = graph.call_module("deep.act", (x,))
    graph.output(graph.call_function(torch.mul, (called, graph.get_attr("deep.factor"))))
    module = fx.GraphModule({"deep.act": nn.ReLU(), "deep.factor": torch.tensor(3.0)}, graph)
    assert module(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 6.0]
    assert list(module.state_dict()) == ["deep.factor"]
    with pytest.raises(RuntimeError, match="was not provided in"):
        fx.GraphModule({}, graph)


def test_submodules_come_and_go():
    traced = fx.symbolic_trace(Net())
    assert traced.add_submodule("extra.inner", nn.Tanh())
    assert isinstance(traced.extra.inner, nn.Tanh)
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "extra") and hasattr(traced.body, "0")
    assert traced.delete_submodule("body.1") and not traced.delete_submodule("body.7")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_whole(copied):
    traced = fx.symbolic_trace(Net())
    traced.meta["note"] = 3
    again = copied(traced)
    x = torch.tensor([[1.0, -1.0]])
    assert again(x).tolist() == traced(x).tolist() and again.code == traced.code
    assert again.graph is not traced.graph and again.graph.owning_module is again
    assert again.meta == {"note": 3} and type(again).__name__ == "Net"
    with torch.no_grad():
        getattr(again.body, "0").weight.zero_()
    assert getattr(traced.body, "0").weight.abs().sum() > 0


def test_readable_text():
    traced = fx.symbolic_trace(lambda x: x + 1)
    text = traced.print_readable(print_output=False)
    assert text.startswith("class <lambda>(torch.nn.Module):\n    def forward(self, x):\n")
    assert str(traced).endswith("please use `graph_module.print_readable()`")


def test_tracebacks_show_the_generated_line():
    traced = fx.symbolic_trace(lambda x: torch.matmul(x, x))
    with pytest.raises(RuntimeError) as caught:
        traced(torch.ones(2, 3))
    lines = [str(entry.statement).strip() for entry in caught.traceback]
    assert "matmul = torch.matmul(x, x);  x = None" in lines


def test_interpreter_and_transformer():
    traced = fx.symbolic_trace(Net())
    x = torch.tensor([[1.0, 2.0]])
    assert fx.Interpreter(traced).run(x).tolist() == traced(x).tolist()

    class Doubling(fx.Transformer):
        def call_module(self, target, args, kwargs):
            return super().call_module(target, args, kwargs) * 2

    doubled = Doubling(traced).transform()
    called = [n.name for n in doubled.graph.nodes]
    assert called == ["x", "body_0", "mul", "body_1", "mul_1", "shift", "add", "output"]
    linear = getattr(traced.body, "0")
    assert doubled(x).tolist() == (2 * torch.relu(2 * linear(x)) + 1).tolist()


def test_interpreter_says_which_node_failed():
    traced = fx.symbolic_trace(lambda x, y: torch.matmul(x, y))
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(traced).run(torch.ones(2, 3), torch.ones(2, 3))
    assert "While executing %matmul" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter y"):
        fx.Interpreter(traced).run(torch.ones(2, 3))


def test_shapes_are_noted():
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(torch.ones(5, 2))
    shapes = {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes}
    assert shapes["body_0"] == (5, 2) and shapes["shift"] == (2,) and shapes["output"] == (5, 2)
    meta = next(iter(traced.graph.nodes)).meta["tensor_meta"]
    assert meta.dtype is torch.float32 and meta.stride == (2, 1)
    assert meta.memory_format is torch.contiguous_format


def test_patterns_are_replaced_everywhere():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x + 1))
    found = fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.sigmoid(x))
    assert len(found) == 2 and str(found[0].nodes_map) == "{relu: relu, x: x}"
    assert traced.code == (
        "\n\n\ndef forward(self, x):\n"
        "    add = x + 1\n"
        "    sigmoid = torch.sigmoid(x);  x = None\n"
        "    sigmoid_1 = torch.sigmoid(add);  add = None\n"
        "    add_1 = sigmoid + sigmoid_1;  sigmoid = sigmoid_1 = None\n"
        "    return add_1\n    "
    )
    assert traced(torch.zeros(1)).item() == pytest.approx(0.5 + 0.7310586)


def test_patterns_whose_inner_values_are_used_stay():
    def function(x):
        doubled = x * 2
        return torch.relu(doubled) + doubled

    traced = fx.symbolic_trace(function)
    assert fx.replace_pattern(traced, lambda x: torch.relu(x * 2), lambda x: x) == []
    wanted = fx.symbolic_trace(lambda x, y: torch.relu(x * 2) - y)
    assert len(fx.replace_pattern(wanted, lambda x: torch.relu(x * 2), lambda x: x + 3)) == 1
    assert wanted(torch.tensor([1.0]), 1).tolist() == [3.0]
