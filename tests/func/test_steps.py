"""The steps of vmap, and the package functorch."""

import pytest

import ember as torch
from ember import _C
from ember._C import _functorch
from ember._functorch import functorch
from ember._functorch import vmap as steps


def test_replaced_steps_are_used(monkeypatch):
    own, seen = steps._process_batched_inputs, []

    def process(in_dims, args, func):
        seen.append(in_dims)
        return own(in_dims, args, func)

    monkeypatch.setattr(steps, "_process_batched_inputs", process)

    def inner(row):
        return torch.vmap(lambda v: v * 2)(row)

    x = torch.arange(6.0).reshape(2, 3)
    assert torch.vmap(inner, in_dims=1, out_dims=1)(x).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert seen == [1, 0]
    outs = torch.vmap(lambda x, y: (x * y["a"], x.sum()), (0, None), (1, 0))(
        torch.ones(2, 3), {"a": torch.arange(3.0)}
    )
    assert [o.tolist() for o in outs] == [[[0, 0], [1, 1], [2, 2]], [3, 3]]
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure"):
        torch.vmap(inner, in_dims=(0, 0))(x)
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure"):
        torch.vmap(inner, out_dims=(0, 0))(x)


def test_a_batch_and_its_elements():
    def f(row):
        assert _functorch.is_batchedtensor(row)
        assert _functorch.get_unwrapped(row).shape == (2, 3)
        again = _functorch._add_batch_dim(torch.arange(6.0).reshape(3, 2), 1, 1)
        assert again.shape == (3,)
        whole = _functorch._remove_batch_dim(again, 1, 2, 1)
        assert whole.tolist() == [[0, 1], [2, 3], [4, 5]]
        with pytest.raises(RuntimeError, match="no transform of level 2"):
            _functorch._add_batch_dim(whole, 0, 2)
        return row + again

    assert torch.vmap(f)(torch.ones(2, 3)).tolist() == [[1, 3, 5], [2, 4, 6]]


def test_transforms_are_active_inside():
    seen = []

    def f(x):
        seen.append(_C._are_functorch_transforms_active())
        return x.sum()

    torch.vmap(f)(torch.ones(2, 2))
    torch.func.grad(f)(torch.ones(2))
    torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),))
    f(torch.ones(2))
    assert seen == [True, True, True, False]


def test_aliases():
    x = torch.ones(4)
    assert _C._is_alias_of(x, x[1:]) and not _C._is_alias_of(x, x.clone())
    assert not _C._is_torch_function_mode_enabled()


def test_modules_as_functions():
    linear = torch.nn.Linear(2, 1)
    function, params = functorch.make_functional(linear)
    x = torch.tensor([[1.0, 2.0]])
    assert function(params, x).equal(linear(x)) and params[0] is not linear.weight
    assert function([torch.ones(1, 2), torch.zeros(1)], x).item() == 3
    norm = torch.nn.BatchNorm1d(1)
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        functorch.make_functional(norm)
    function, params, buffers = functorch.make_functional_with_buffers(norm, True)
    assert not params[0].requires_grad
    assert function(params, buffers, torch.tensor([[1.0], [3.0]])).tolist() == [
        [pytest.approx(-1, abs=1e-4)],
        [pytest.approx(1, abs=1e-4)],
    ]
    models = [torch.nn.Linear(2, 1) for _ in range(3)]
    function, params, _ = functorch.combine_state_for_ensemble(models)
    found = torch.vmap(function, in_dims=(0, 0, None))(params, (), x)
    torch.testing.assert_close(found, torch.stack([m(x) for m in models]))
