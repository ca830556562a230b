"""Overrides by subclasses and modes, the cost of an op, results that own their memory."""

import pytest

import ember


def logged(torch):
    class Logged(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


def test_subclasses_see_ops(torch):
    Logged = logged(torch)
    x = torch.ones(2).as_subclass(Logged)
    Logged.calls.clear()
    y = torch.add(x, 1)
    assert isinstance(y, Logged) and Logged.calls == ["add"]
    z = torch.ones(2) * x
    assert isinstance(z, Logged) and z.tolist() == [1, 1]
    assert type(torch.ones(2) + 1) is torch.Tensor


def test_subclasses_may_answer_themselves(torch):
    class Answer:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return ("answered", getattr(func, "__name__", ""), len(args))

    assert torch.exp(Answer()) == ("answered", "exp", 1)
    assert torch.add(torch.ones(2), Answer()) == ("answered", "add", 2)
    assert torch.nn.functional.relu(Answer()) == ("answered", "relu", 1)
    assert torch.cat([torch.ones(1), Answer()])[0] == "answered"


def test_nobody_answers(torch):
    class Silent:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation found for|Multiple dispatch failed for"):
        torch.exp(Silent())


def test_parameters_give_plain_results(torch):
    w = torch.nn.Parameter(torch.ones(2))
    assert type(w + 1) is torch.Tensor and type(w[0]) is torch.Tensor
    assert type(w.detach()) is torch.Tensor and type(w.data) is torch.Tensor
    assert isinstance(w, torch.Tensor) and w.requires_grad and w.is_leaf


def test_python_defers_to_other_classes(torch):
    class Other:
        def __radd__(self, value):
            return "radd"

        def __rmatmul__(self, value):
            return "rmatmul"

        def __rmul__(self, value):
            return "rmul"

    x = torch.ones(2)
    assert (x + Other(), x * Other(), x @ Other()) == ("radd", "rmul", "rmatmul")


def test_arguments_by_name_and_aliases(torch):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.sum(input=x, dim=0).tolist() == [4, 6]
    assert x.sum(axis=1, keepdims=True).tolist() == [[3], [7]]
    assert torch.add(input=x, other=x, alpha=2).tolist() == [[3, 6], [9, 12]]
    for call in (
        lambda: torch.add(x, x, x, x, x),
        lambda: torch.sum(x, 0, dim=1),
        lambda: torch.exp(),
        lambda: torch.exp(x, bogus=1),
        lambda: torch.exp(5),
    ):
        with pytest.raises(TypeError):
            call()


def test_results_own_their_memory():
    """No op hands out its input's memory but views, which say so."""
    x = ember.arange(6.0).reshape(2, 3)
    for op in (
        lambda t: t + 0,
        lambda t: t * 1,
        lambda t: t.clone(),
        lambda t: t.abs(),
        lambda t: t.relu(),
        lambda t: t.softmax(1),
        lambda t: t[[0, 1]],
        lambda t: ember.cat([t]),
        lambda t: t.roll(0, 0),
        lambda t: t.flip(()),
        lambda t: ember.where(t >= 0, t, t),
        lambda t: t.clamp(-99, 99),
        lambda t: t.sort(1)[0],
        lambda t: t.tril(9),
        lambda t: t.sum(()) if t.ndim == 0 else t.cumsum(0),
        lambda t: t.repeat(1, 1),
        lambda t: t.masked_fill(t > 99, 0.0),
        lambda t: ember.nn.functional.pad(t, (0, 0)),
        lambda t: t.to(t.dtype, copy=True),
    ):
        made = op(x)
        assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        made.add_(100)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_same_op_of_the_same_specs_is_planned_once():
    from ember.core.registry import OPS

    plans = OPS["mul"].plans
    x = ember.ones(7, 5)
    x * x
    before = len(plans)
    for _ in range(5):
        (x + 1) * (x - 1)
        x * 2.5, x * 3.5
    assert len(plans) <= before + 1  # one for tensors was there; one for a float


def test_many_values_of_numbers_make_no_new_plans():
    from ember.core.registry import OPS

    x = ember.ones(3)
    plans = OPS["add"].plans
    x + 0.5
    before = len(plans)
    for k in range(50):
        x + (k + 0.25)
        ember.add(x, k + 0.75)
    assert len(plans) <= before + 1


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: ember.stack([3]), "expected Tensor as element 0 in argument 0, but got int"),
        (lambda: ember.zeros_like("s"), r"zeros_like\(\): argument 'input' \(position 1\) must be"),
        (lambda: ember.flip(3, (0,)), r"flip\(\): argument 'input' .* must be Tensor, not int"),
        (lambda: ember.einsum("i", 3), r"einsum\(\): argument \(position 2\) must be Tensor"),
        (
            lambda: ember.nn.functional.softmax([1.0], 0),
            r"softmax\(\): argument 'input' \(position 1\) must be Tensor, not list",
        ),
    ],
)
def test_what_is_no_tensor_is_named(run, message):
    with pytest.raises(TypeError, match=message):
        run()
