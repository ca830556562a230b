"""Hooks that are not saved, blocks that decorate, devices of blocks, tensors that change places."""

import weakref

import pytest

import ember as torch
from ember.utils import _contextlib, _device, _python_dispatch, hooks


def test_hooks_that_are_lost_are_warned_of():
    marked, plain = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    marked.register_hook(hooks.unserializable_hook(lambda g: g))
    hooks.warn_if_has_hooks(marked)
    plain.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="will not be serialized"):
        hooks.warn_if_has_hooks(plain)


class Block(_contextlib._DecoratorContextManager):
    log: list = []

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        Block.log.append(f"in {self.name}")

    def __exit__(self, *exc):
        Block.log.append("out")

    def clone(self):
        return Block(self.name)


def test_blocks_decorate_functions_and_generators():
    @Block("a")
    def plain(x):
        return x + 1

    @Block("b")
    def steps():
        got = yield 1
        yield got

    Block.log.clear()
    assert plain(1) == 2 and Block.log == ["in a", "out"]
    Block.log.clear()
    made = steps()
    assert next(made) == 1 and made.send(5) == 5 and list(made) == []
    assert Block.log == ["in b", "out"] * 3


def test_blocks_without_parameters():
    class Bare(_contextlib._NoParamDecoratorContextManager):
        inside = 0

        def __enter__(self):
            Bare.inside += 1

        def __exit__(self, *exc):
            pass

    @Bare
    def five():
        return 5

    assert five() == 5 and Bare.inside == 1
    with Bare():
        assert Bare.inside == 2
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        _contextlib.context_decorator(lambda: Bare(), Bare)


def test_devices_of_blocks():
    with _device.DeviceContext("meta"):
        assert torch.ones(2).device.type == "meta"
    assert _device.set_device("meta")(lambda: torch.ones(2))().device.type == "meta"
    assert torch.ones(2).device.type == "cpu"


def test_tensors_change_places():
    a, b = torch.ones(2), torch.zeros(3)
    a.label = "a"
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1]
    assert b.label == "a" and not hasattr(a, "label")
    kept = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        torch.utils.swap_tensors(a, b)
    assert kept() is a


def test_dispatch_below_autograd_is_refused():
    class Mode(_python_dispatch.TorchDispatchMode):
        pass

    with pytest.raises(NotImplementedError, match="TorchFunctionMode"), Mode():
        pass
    assert not _python_dispatch.is_traceable_wrapper_subclass(torch.ones(1))


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield torch.utils.deterministic
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(False)


def test_memory_without_values_stands_out(deterministic):
    assert torch.empty(2).isnan().all() and torch.empty_like(torch.ones(2)).isnan().all()
    assert torch.empty(2, dtype=torch.int32).tolist() == [2147483647] * 2
    assert torch.empty(1, dtype=torch.bool).item() is True
    assert (
        torch.empty_strided((2,), (1,)).isnan().all() and torch.ones(1).new_empty(2).isnan().all()
    )
    assert torch.empty(2, device="meta").shape == (2,)
    deterministic.fill_uninitialized_memory = False
    torch.empty(2).fill_(0)
    assert deterministic.fill_uninitialized_memory is False
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        deterministic.fill_uninitialized_memory = 3


def test_reports_of_the_machine():
    text = torch.utils.collect_env.get_pretty_env_info()
    assert "PyTorch version: 2.13.0+ember" in text and "numpy==" in text
