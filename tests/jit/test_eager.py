"""What eager programs use of torch.jit."""

import warnings

import pytest

import ember as torch
from ember import jit, nn


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """The warning that is given once was given."""
    monkeypatch.setattr(jit._script, "_told", [True])


def test_nothing_is_being_scripted_or_traced():
    assert jit.is_scripting() is False and jit.is_tracing() is False


def test_marks_leave_functions_as_they_are():
    def function(x):
        return x + 1

    for mark in (jit.ignore, jit.unused, jit.export, jit.interface, jit._overload, jit.ignore()):
        assert mark(function) is function
    assert jit.ignore(drop=True)(function)._torchscript_modifier == "unused"
    assert jit.script_if_tracing(function)(2) == 3
    with pytest.raises(RuntimeError, match="must be a bool or a function"):
        jit.ignore("yes")


def test_annotations():
    assert jit.annotate(list[int], [1]) == [1]
    assert jit.Attribute(3, int).value == 3
    assert jit.Final[int] and jit.annotations.BroadcastingList2[int] is None
    assert jit.isinstance([1, 2], list[int]) and not jit.isinstance(["a"], list[int])
    assert jit.isinstance({"a": [1.0]}, dict[str, list[float]])
    assert jit.isinstance((1, "a"), tuple[int, str]) and not jit.isinstance((1,), tuple[int, str])
    assert jit.isinstance(None, int | None) and not jit.isinstance("a", (int, float))


def test_scripted_functions_run_their_python():
    def function(x, y: int = 2):
        """Its text."""
        return x * y

    scripted = jit.script(function)
    assert isinstance(scripted, jit.ScriptFunction) and scripted.__doc__ == "Its text."
    assert scripted(torch.ones(2)).tolist() == [2.0, 2.0] and scripted.name == "function"
    assert jit.script(scripted) is scripted
    with pytest.raises(NotImplementedError, match="torch.save"):
        scripted.save("file")
    with pytest.raises(AttributeError, match="not compiled"):
        scripted.graph


def test_scripting_says_once_that_it_does_not_compile(monkeypatch):
    monkeypatch.setattr(jit._script, "_told", [False])
    with pytest.warns(jit.ScriptWarning, match="the Python code itself runs"):
        jit.script(abs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.script(abs)


def test_scripted_modules_share_everything_with_the_original():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    scripted = jit.script(net)
    assert isinstance(scripted, (jit.ScriptModule, nn.Module)) and not isinstance(
        scripted, nn.Sequential
    )
    assert scripted.original_name == "Sequential" and len(scripted) == 2 and bool(scripted)
    assert scripted[0].weight is net[0].weight and list(scripted.state_dict()) == list(
        net.state_dict()
    )
    scripted.eval()
    assert not net[1].training and not scripted.training
    x = torch.ones(1, 2)
    assert scripted(x).tolist() == net(x).tolist()
    scripted.note = 3
    assert net.note == 3
    seen = []
    scripted.register_forward_hook(lambda *args: seen.append(1))
    scripted(x)
    assert seen == [1]
    assert repr(jit.script(nn.ReLU())) == "RecursiveScriptModule(original_name=ReLU)"
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        scripted.missing
    with pytest.raises(NotImplementedError, match="archives are not written"):
        jit.save(scripted, "file")


def test_classes_and_wrong_things():
    class Plain:
        pass

    assert jit.script(Plain) is Plain
    with pytest.raises(RuntimeError, match="cannot be compiled since it inherits from nn.Module"):
        jit.script(nn.ReLU)


def test_traced_modules_run_once_and_come_back():
    calls = []

    class Net(nn.Module):
        def forward(self, x):
            calls.append(torch.is_grad_enabled())
            return x * 2 if x.sum() > 0 else x

    traced = jit.trace(Net(), torch.ones(2))
    assert calls == [False] and isinstance(traced, jit.TopLevelTracedModule)
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
    assert jit.trace(lambda x, y: x + y, (torch.ones(1), 1))(1, 2) == 3
    assert isinstance(jit.trace_module(Net(), {"forward": torch.ones(1)}), jit.TracedModule)
    with pytest.raises(RuntimeError):
        jit.trace(Net())
    with pytest.raises(AttributeError, match="expected torch.nn.Module"):
        jit.trace_module(abs, {})


def test_freezing_gives_the_module():
    scripted = jit.script(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        jit.freeze(scripted)
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule"):
        jit.freeze(nn.Linear(2, 2))
    assert jit.freeze(scripted.eval()) is scripted
    assert jit.optimize_for_inference(scripted) is scripted


def test_forks_run_at_once():
    future = jit.fork(torch.add, torch.ones(1), 2)
    assert future.done() and jit.wait(future).tolist() == [3.0]


def test_settings_are_kept():
    assert jit.onednn_fusion_enabled() is False
    before = jit.set_fusion_strategy([("STATIC", 1)])
    assert jit.set_fusion_strategy(before) == [("STATIC", 1)]
    with jit.fuser("fuser1"), jit.optimized_execution(True), jit.strict_fusion():
        assert not jit.is_scripting()
    with pytest.raises(Exception, match="unrecognized fuser option"), jit.fuser("fuser9"):
        pass


def test_older_style_modules():
    class Old(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        @jit.script_method
        def forward(self, x):
            return x * self.weight

    assert Old()(torch.tensor([3.0])).tolist() == [3.0]
