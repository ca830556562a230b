"""torch.compile and torch.compiler: the documented call, and the marks around it."""

import copy

import pytest

import ember as torch
from ember import _dynamo, compiler, nn
from ember.compiler.registered import InvalidBackend


def test_functions_are_called():
    def function(x):
        """Its text."""
        return x * 2

    compiled = torch.compile(function, fullgraph=True, dynamic=False, mode="max-autotune")
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert compiled.__doc__ == "Its text." and compiled.__wrapped__ is function
    assert torch.compile(function, disable=True) is function

    @torch.compile(backend="eager")
    def decorated(x):
        return x + 1

    assert decorated(1) == 2
    assert torch.compile(options={"max_autotune": True})(function)(3) == 6


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"mode": "fast"}, RuntimeError, "Unrecognized mode=fast, should be one of: default"),
        ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options can be"),
        ({"backend": "none"}, InvalidBackend, "Invalid backend: 'none', see"),
        ({"options": 3}, AttributeError, "options is a dict"),
        ({"dynamic": 3}, AssertionError, "Expected enable to be a bool"),
        ({"speed": 3}, TypeError, "unexpected keyword argument 'speed'"),
    ],
)
def test_wrong_arguments(keywords, error, text):
    with pytest.raises(error, match=text):
        torch.compile(abs, **keywords)
    with pytest.raises(AssertionError, match="A callable function is expected"):
        torch.compile(3)


def test_modules_become_optimized_modules():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = torch.compile(net)
    assert isinstance(compiled, _dynamo.OptimizedModule) and compiled._orig_mod is net
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    x = torch.ones(1, 2)
    assert compiled(x).tolist() == net(x).tolist()
    compiled.note = 3
    assert net.note == 3 and compiled.note == 3
    compiled.eval()
    assert not net.training and not compiled.training
    assert [n for n, _ in compiled.named_parameters()] == [
        "_orig_mod.0.weight",
        "_orig_mod.0.bias",
    ]
    again = copy.deepcopy(compiled)
    assert again._orig_mod is not net and again(x).tolist() == net(x).tolist()
    with pytest.raises(AttributeError):
        compiled.missing


def test_modules_compile_in_place():
    net = nn.Linear(2, 2)
    assert net.compile(mode="default") is None
    assert net._compiled_call_impl is not None and net(torch.ones(1, 2)).shape == (1, 2)
    assert copy.deepcopy(net)(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        net.compile(mode="fast")


def test_nothing_is_compiling():
    assert compiler.is_compiling() is False and _dynamo.is_compiling() is False
    assert compiler.is_dynamo_compiling() is False and compiler.is_exporting() is False


def test_marks_leave_functions_to_run():
    def function(x):
        return x + 1

    assert compiler.disable(function)(1) == 2 and compiler.disable(function) is not function
    assert compiler.disable(recursive=False)(function) is function
    assert compiler.disable(reason="slow")(function)(1) == 2
    net = nn.ReLU()
    assert compiler.disable(net)(torch.tensor([-1.0])).tolist() == [0.0]
    assert compiler.allow_in_graph(function) is function
    assert compiler.assume_constant_result(function) is function
    assert compiler.nested_compile_region(function) is function
    assert compiler.substitute_in_graph(abs)(function) is function
    assert compiler.wrap_numpy(lambda a: a + 1)(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert compiler.reset() is None and compiler.cudagraph_mark_step_begin() is None


def test_stances():
    def double(x):
        return x * 2

    compiled = torch.compile(double)
    with compiler.set_stance("force_eager"):
        assert compiled(torch.ones(2)).tolist() == [2, 2]
        assert compiled.report() == ""
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert "planned memory" in compiled.report()
    with compiler.set_stance("fail_on_recompile"):
        assert compiled(torch.ones(2) * 2).tolist() == [4, 4]
        with pytest.raises(RuntimeError, match="fail_on_recompile, and argument 0 is a"):
            compiled(torch.ones(3))
    again = compiler.set_stance("eager_on_recompile")(compiled)
    assert again(torch.ones(3)).tolist() == [2, 2, 2]
    assert compiled.report().count("planned memory") == 1


def test_disabled_functions_are_not_recorded():
    @compiler.disable
    def inner(x):
        return x + 1

    compiled = torch.compile(lambda x: inner(x) * 2)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert "inner is marked with torch.compiler.disable" in compiled.report()


def test_wrong_stances():
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'fast'"):
        compiler.set_stance("fast")


def test_backends_are_names():
    assert compiler.list_backends() == ["cudagraphs", "inductor", "openxla", "tvm"]
    assert "eager" in compiler.list_backends(None)
    compiler.set_default_backend("eager")
    assert compiler.get_default_backend() == "eager"
    compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "inductor"
    with pytest.raises(InvalidBackend):
        compiler.set_default_backend("none")


def test_dynamo_names():
    x = torch.ones(1)
    _dynamo.mark_static_address(x)
    _dynamo.mark_dynamic(x, 0)
    _dynamo.graph_break()
    assert _dynamo.optimize("eager")(abs)(-1) == 1
    assert _dynamo.config.cache_size_limit == 8
    with _dynamo.config.patch(cache_size_limit=64, verbose=True):
        assert _dynamo.config.cache_size_limit == 64 and _dynamo.config.verbose
    assert _dynamo.config.cache_size_limit == 8 and not _dynamo.config.verbose
    with pytest.raises(NotImplementedError, match="not captured as graphs yet"):
        _dynamo.explain(abs)
    assert _dynamo.utils.counters["stats"]["calls"] == 0
