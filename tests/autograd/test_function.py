"""autograd.Function: every feature of a user's own op."""

import gc
import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def cube(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale=1.0):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x**3 * scale

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x * ctx.scale, None

    return Cube


def test_forward_and_backward(torch):
    x = leaf(torch, 2.0, 3.0)
    y = cube(torch).apply(x, 2.0)
    assert y.tolist() == [16, 54] and y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [24, 54]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_second_derivatives(torch):
    x = leaf(torch, 2.0)
    (first,) = torch.autograd.grad(cube(torch).apply(x, 1.0), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.tolist() == [12]


def test_setup_context(torch):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            assert output.tolist() == [6]

        @staticmethod
        def backward(ctx, grad):
            _a, b = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return grad * b, None

    a = leaf(torch, 2.0)
    Product.apply(a, a.detach() + 1).backward()
    assert a.grad.tolist() == [3]


def test_nothing_is_recorded_inside(torch):
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((torch.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.is_grad_enabled())
            return grad

    x = leaf(torch, 1.0)
    Look.apply(x).backward()
    assert seen == [(False, True, False), False]
    torch.autograd.grad(Look.apply(x), x, create_graph=True)
    assert seen[3] is True
    with torch.no_grad():
        assert not Look.apply(x).requires_grad


def test_several_results(torch):
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(found := (x > 1))
            return x * 2, x * 3, found, "note"

        @staticmethod
        def backward(ctx, a, b, c, d):
            seen.append([None if g is None else g.tolist() for g in (a, b, c)])
            return a * 2 + b * 3

    seen = []
    x = leaf(torch, 1.0, 2.0)
    _a, b, c, d = Parts.apply(x)
    assert d == "note" and not c.requires_grad and c.tolist() == [False, True]
    b.sum().backward()
    assert seen[0][:2] == [[0, 0], [1, 1]] and x.grad.tolist() == [3, 3]


def test_gradients_that_are_not_made_up(torch):
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b.tolist()))
            return b * 3

    seen = []
    x = leaf(torch, 1.0)
    Parts.apply(x)[1].backward()
    assert seen == [(None, [1])]


def test_a_write_in_forward(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    source = leaf(torch, 1.0, 2.0)
    x = source * 1
    y = Double.apply(x)
    assert y is x and x._version == 2 and x.grad_fn.name() == "DoubleBackward"
    x.sum().backward()
    assert source.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(source)


def test_an_input_returned_as_it_is(torch):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf(torch, 1.0)
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.backward()
    assert x.grad.tolist() == [5]


def test_saved_results(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, None)
            return y

        @staticmethod
        def backward(ctx, grad):
            y, nothing = ctx.saved_tensors
            assert nothing is None
            return grad * y

    x = leaf(torch, 0.0)
    y = Exp.apply(x)
    gone = weakref.ref(y)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.tolist() == second.tolist() == [1]
    y = Exp.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    del y, first, second
    gc.collect()
    assert gone() is None


def test_saved_inputs_that_were_written(torch):
    x = leaf(torch, 2.0)
    inner = x * 1
    y = cube(torch).apply(inner)
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_save_for_backward_takes_tensors(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(5)
            return x * 1

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Wrong.apply(leaf(torch, 1.0))


@pytest.mark.parametrize("count", [0, 3])
def test_a_wrong_number_of_gradients(torch, count):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, grad):
            return (grad,) * count

    a = leaf(torch, 1.0)
    message = rf"returned an incorrect number of gradients \(expected 2, got {count}\)"
    with pytest.raises(RuntimeError, match=message):
        Wrong.apply(a, a).backward()
    assert a.grad is None


def test_gradients_of_a_wrong_type(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            return 5

    with pytest.raises(RuntimeError, match="expected Variable or None"):
        Wrong.apply(leaf(torch, 1.0)).backward()


def test_without_backward(torch):
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

    x = leaf(torch, 1.0)
    y = Forward.apply(x)
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp"):
        y.backward()

    class Nothing(torch.autograd.Function):
        pass

    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Nothing.apply(x)


def test_functions_are_not_made_into_objects(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch only warns, and fails at the call")
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        cube(torch)()


def test_once_differentiable(torch):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert not torch.is_grad_enabled()
            return grad * 2 * x

    x = leaf(torch, 3.0)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6]
    (first,) = torch.autograd.grad(Once.apply(x) * x, x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        first.backward()


def test_an_error_in_forward_leaves_recording_on(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise LookupError

    with pytest.raises(LookupError):
        Fails.apply(leaf(torch, 1.0))
    assert torch.is_grad_enabled()


def test_integers_among_the_arguments(torch):
    class Take(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, index):
            assert ctx.needs_input_grad == (True, False)
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return x[index]

        @staticmethod
        def backward(ctx, grad):
            (index,) = ctx.saved_tensors
            made = torch.zeros(ctx.shape, dtype=grad.dtype)
            made[index] = grad
            return made, None

    x = leaf(torch, 1.0, 2.0, 3.0)
    Take.apply(x, torch.tensor([2, 0])).sum().backward()
    assert x.grad.tolist() == [1, 0, 1]


def test_a_result_with_no_dims_and_no_inputs_that_need_gradients(torch):
    Cube = cube(torch)
    y = Cube.apply(torch.tensor(2.0), 1.0)
    assert y.item() == 8 and not y.requires_grad and y.grad_fn is None


def test_arguments_by_name_have_gradients(torch):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k=2):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.k, None

    x = leaf(torch, 1.0, 2.0)
    y = Scale.apply(k=3, x=x)
    assert y.requires_grad and y.tolist() == [3.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Scale.apply(x, z=1)
