"""`__torch_function__` on classes and modes, and the questions that torch.overrides answers."""

import copy
import pickle

import pytest

import ember as torch
from ember import overrides


class Logged(torch.Tensor):
    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.seen.append(overrides.resolve_name(func))
        return super().__torch_function__(func, types, args, kwargs)


class Tagged(torch.Tensor):
    pass


class Duck:
    """No tensor, but it overrides."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return overrides.resolve_name(func), len(args), kwargs


class Declines(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def seen(run):
    Logged.seen.clear()
    run(torch.ones(2, 2).as_subclass(Logged))
    return list(Logged.seen)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (lambda x: x.shape, ["torch.Tensor.shape.__get__"]),
        (lambda x: x.size(), ["torch.Tensor.size"]),
        (lambda x: x.T, ["torch.Tensor.T.__get__"]),
        (lambda x: x.detach(), ["torch.Tensor.detach"]),
        (lambda x: x.grad, ["torch.Tensor.grad.__get__"]),
        (lambda x: x.data, ["torch.Tensor.data.__get__"]),
        (lambda x: setattr(x, "requires_grad", True), ["torch.Tensor.requires_grad.__set__"]),
        (lambda x: torch.relu(x), ["torch.relu"]),
        (lambda x: torch.nn.functional.softmax(x, 0), ["torch.nn.functional.softmax"]),
        (lambda x: torch.stack([x, x]), ["torch.stack"]),
        (lambda x: len(x), ["torch.Tensor.__len__"]),
    ],
)
def test_overrides_are_asked(run, names):
    assert seen(run) == names


def test_results_keep_the_class():
    x = torch.ones(2, 2).as_subclass(Tagged)
    for made in (x.detach(), x.data, x.T, x + 1, x.clone(), x[0], torch.stack([x])):
        assert type(made) is Tagged
    assert type(x.shape) is torch.Size and x.grad is None
    assert [type(part) for part in x.split(1)] == [Tagged, Tagged]
    assert repr(torch.ones(1).as_subclass(Tagged)) == "Tagged([1.])"


def test_gradients_of_subclasses_stay_what_they_are():
    x = torch.ones(2).as_subclass(Tagged).detach().requires_grad_()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_disabled_blocks_and_classes():
    x = torch.ones(2).as_subclass(Tagged)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    with torch._C.DisableTorchFunction():
        assert type(x.detach()) is torch.Tensor

    class Quiet(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(1).as_subclass(Quiet) + 1) is torch.Tensor


def test_parameters_do_not_override_but_their_subclasses_may():
    class Own(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "own"

    assert type(torch.nn.Parameter(torch.ones(1)) + 1) is torch.Tensor
    assert torch.add(Own(torch.ones(1)), 1) == "own"


def test_arguments_that_are_no_tensors_override():
    assert torch.add(Duck(), 1) == ("torch.add", 2, {})
    assert torch.mean(Duck()) == ("torch.mean", 1, {})
    assert torch.cat([torch.ones(1), Duck()]) == ("torch.cat", 1, {})
    assert torch.nn.functional.linear(Duck(), Duck())[0] == "torch.nn.functional.linear"


def test_all_decline():
    x = torch.ones(1).as_subclass(Declines)
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.add'"):
        torch.add(x, 1)
    with pytest.raises(TypeError, match=r"'torch.Tensor.shape.__get__'.*\n\n.*Declines"):
        x.shape


class Names(overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_everything():
    with Names() as mode:
        x = torch.ones(2)
        assert x.shape == (2,)
        (x + 1).sum()
        x.requires_grad = True
        torch.autograd.grad((x * 2).sum(), x)
    assert mode.seen == [
        "torch.ones",
        "torch.Tensor.shape.__get__",
        "torch.add",
        "torch.sum",
        "torch.Tensor.requires_grad.__set__",
        "torch.mul",
        "torch.sum",
        "torch.autograd.backward.grad",
    ]
    count = len(mode.seen)
    assert x.shape == (2,) and len(mode.seen) == count
    assert isinstance(vars(torch.Tensor)["data"], property)  # as before


def test_modes_nest_inner_first():
    order = []

    class Noted(overrides.BaseTorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return super().__torch_function__(func, types, args, kwargs)

    with Noted("outer"), Noted.push("inner"):
        torch.ones(1)
    assert order == ["inner", "outer"]


def test_modes_that_say_nothing():
    with pytest.raises(NotImplementedError), overrides.TorchFunctionMode():
        torch.ones(1)


def test_functions_of_programs_can_be_overridden():
    def public(x, k=0):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(public, (x,), x, k=k)
        return "plain"

    assert public(1) == "plain"
    assert public(Duck(), k=1)[1:] == (1, {"k": 1})

    @overrides.wrap_torch_function(lambda x: (x,))
    def wrapped(x):
        return "plain"

    assert wrapped(3) == "plain" and isinstance(wrapped(Duck()), tuple)
    with pytest.raises(TypeError, match="no implementation found for"):
        overrides.handle_torch_function(wrapped, (3,), 3)


def test_questions():
    x = torch.ones(1)
    assert overrides.is_tensor_like(x) and overrides.is_tensor_like(Duck())
    assert not overrides.is_tensor_like(3)
    assert not overrides.has_torch_function((x, torch.nn.Parameter(x)))
    assert overrides.has_torch_function_unary(Duck())
    assert overrides.has_torch_function_variadic(3, x.as_subclass(Tagged))
    assert overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert overrides.resolve_name(torch.linalg.det) == "torch.linalg.det"
    assert overrides.resolve_name(torch.Tensor.grad.__set__) == "torch.Tensor.grad.__set__"
    assert overrides.resolve_name(len) is None
    assert torch.zeros in overrides.get_ignored_functions()
    assert torch.add in overrides.get_overridable_functions()[torch]
    assert torch.Tensor.shape.__get__ in overrides.get_overridable_functions()[torch.Tensor]
    assert overrides.get_testing_overrides()[torch.add](1, 2) == -1
    assert torch.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


def test_subclasses_are_copied_and_made():
    data = torch.zeros(2)
    made = torch.Tensor._make_subclass(Tagged, data, True)
    assert type(copy.copy(made)) is Tagged and made.is_leaf and made.requires_grad
    again = pickle.loads(pickle.dumps(torch.ones(2).as_subclass(Tagged)))
    assert type(again) is Tagged and again.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        torch.Tensor._make_subclass(int, data)
    with pytest.raises(TypeError, match="argument 'data' .* must be Tensor, not int"):
        torch.Tensor._make_subclass(Tagged, 3)


def test_dispatch_below_autograd_is_refused():
    class Wrapper(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(NotImplementedError, match="has a __torch_dispatch__, which Ember never"):
        torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3))
    with pytest.raises(NotImplementedError, match="has a __torch_dispatch__, which Ember never"):
        torch.ones(1).as_subclass(Wrapper)
    with pytest.raises(NotImplementedError, match="would be a tensor without memory"):
        torch.Tensor._make_wrapper_subclass(Tagged, (2, 3))


def test_is_tensor_asks_no_overrides():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("asked")

    assert not torch.is_tensor(Like()) and torch.is_tensor(torch.ones(1))


def test_what_takes_data_asks_no_class():
    x = torch.ones(2).as_subclass(Tagged)
    assert torch.as_tensor(x) is x
    assert type(torch.tensor(x.tolist())) is torch.Tensor
    assert [type(row) for row in torch.ones(2, 2).as_subclass(Tagged)] == [Tagged, Tagged]
    with Names() as mode:
        assert torch.is_tensor(x)
        assert torch.as_tensor(x) is x
    assert mode.seen == ["torch.is_tensor", "torch.as_tensor"]


def test_parameters_of_other_classes_say_so():
    class Own(torch.nn.Parameter):
        pass

    marked = torch.nn.Parameter(torch.ones(1).as_subclass(Tagged))
    assert repr(marked) == "Parameter(Tagged([1.], requires_grad=True))"
    text = "Parameter containing:\nParameter(Own([1.], requires_grad=True))"
    assert repr(Own(torch.ones(1))) == text
