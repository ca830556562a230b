"""Operators of programs (torch.library) under transforms."""

import numpy
import pytest

import ember

pytestmark = pytest.mark.filterwarnings("ignore")
numbers = iter(range(1000))


def cube(torch):
    """x³·w by NumPy, an operator that sees only real tensors."""
    name = f"{torch.__name__}_func::cube{next(numbers)}"

    @torch.library.custom_op(name, mutates_args=())
    def operator(x: torch.Tensor, w: float) -> torch.Tensor:
        return torch.from_numpy(numpy.power(x.detach().numpy(), 3) * w)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.w = inputs[1]

    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0] ** 2 * ctx.w, None

    operator.register_autograd(backward, setup_context=setup_context)
    return operator


def test_gradients():
    """PyTorch refuses operators inside its gradient transforms."""
    operator, x = cube(ember), ember.tensor([1.0, 2.0])
    found = ember.func.grad(lambda y: operator(y, 2.0).sum())(x)
    assert found.tolist() == [6.0, 24.0]
    rows = ember.stack([x, x + 2])
    each = ember.vmap(ember.func.grad(lambda y: operator(y, 1.0).sum()))(rows)
    assert each.tolist() == [[3.0, 12.0], [27.0, 48.0]]


def test_one_element_after_another(torch):
    operator, x = cube(torch), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.vmap(lambda y: operator(y, 2.0))(x).tolist() == [[2.0, 16.0], [54.0, 128.0]]
    leaf = x.clone().requires_grad_()
    torch.vmap(lambda y: operator(y, 1.0))(leaf).sum().backward()
    assert leaf.grad.tolist() == [[3.0, 12.0], [27.0, 48.0]]


def test_own_rule(torch):
    operator, x = cube(torch), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    seen = []

    def rule(info, in_dims, x, w):
        seen.append((info.batch_size, in_dims[0]))
        return operator(x.movedim(in_dims[0], 0), w), 0

    operator.register_vmap(rule)
    assert torch.vmap(lambda y: operator(y, 2.0))(x).tolist() == [[2.0, 16.0], [54.0, 128.0]]
    assert seen == [(2, 0)]
