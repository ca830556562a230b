"""What requires gradients, what is detached, and what `.data` may be."""

import gc
import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_requires_grad_of_results(torch):
    a, b = leaf(torch, 1.0), torch.ones(1, dtype=torch.float64)
    assert (a + b).requires_grad and not (b + b).requires_grad
    assert not (a > b).requires_grad
    assert not a.detach().requires_grad
    assert (a + b).is_leaf is False and b.is_leaf and a.is_leaf


def test_requires_grad_can_only_be_changed_on_leaves(torch):
    a = leaf(torch, 1.0)
    b = a * 2
    b.requires_grad_()
    message = "you can only change requires_grad flags of leaf variables"
    with pytest.raises(RuntimeError, match=message):
        b.requires_grad_(False)
    with pytest.raises(RuntimeError, match=message):
        b.requires_grad = False
    assert b.requires_grad
    a.requires_grad = False
    assert not a.requires_grad and not (a * 2).requires_grad


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_integers_have_no_gradients(torch, dtype):
    with pytest.raises(RuntimeError, match=r"[Oo]nly Tensors of floating point"):
        torch.zeros(2, dtype=getattr(torch, dtype), requires_grad=True)
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        torch.zeros(2, dtype=getattr(torch, dtype)).requires_grad_()


def test_detach(torch):
    a = leaf(torch, 1.0, 2.0)
    b = (a * 2).detach()
    assert not b.requires_grad and b.is_leaf and b.grad_fn is None
    d = a.detach()
    d[0] = 7
    assert a.tolist() == [7, 2] and a._version == d._version == 1


def test_detach_in_place(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    assert b.detach_() is b and b.is_leaf and not b.requires_grad
    view = (a * 2)[:1]
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        view.detach_()


def test_data(torch):
    a = leaf(torch, 1.0, 2.0)
    y = (a * a).sum()
    a.data.mul_(10)
    assert a._version == 0
    y.backward()  # no complaint: the write was not counted
    assert a.grad.tolist() == [20, 40]
    a.data = torch.zeros(3, dtype=torch.float64)
    assert a.shape == (3,) and a.requires_grad and a.is_leaf


def test_data_assignment_refuses_what_could_not_be_the_tensor(torch):
    a = leaf(torch, 1.0)
    with pytest.raises((RuntimeError, TypeError)):
        a.data = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        a.data = 5
    assert a.tolist() == [1]


def test_gradients_after_data_was_exchanged(torch):
    a = leaf(torch, 1.0, 2.0)
    (a * 2).sum().backward()
    a.data = torch.zeros(3, dtype=torch.float64)
    a.grad = None
    (a * 3).sum().backward()
    assert a.grad.tolist() == [3, 3, 3]


def test_complex_gradients_are_the_conjugate_ones(torch):
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, 6 - 2j]
    z.grad = None
    (z * z).real.sum().backward()
    assert z.grad.tolist() == [2 - 4j, 6 + 2j]
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for real scalar outputs"
    ):
        (z * z).sum().backward()


def test_real_leaves_of_complex_values_get_real_gradients(torch):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = x * torch.tensor([1j, 2 + 1j], dtype=torch.complex128)
    (y * y.conj()).real.sum().backward()
    assert x.grad.dtype is torch.float64 and x.grad.tolist() == [2, 20]


def test_the_graph_lets_go_of_what_it_saved(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    gone = weakref.ref(b)
    y = (b + 0).exp().sum()
    del b
    gc.collect()
    y.backward()
    assert gone() is None and a.grad is not None


def test_a_result_that_saves_itself_dies_at_once(torch):
    a = leaf(torch, 1.0)
    gc.disable()
    try:
        y = a.exp()
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()
