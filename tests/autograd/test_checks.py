"""gradcheck and gradgradcheck find wrong gradients; Jacobians, Hessians and products with them."""

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def wrong(torch, factor):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * factor * x

    return Square.apply


def test_right_gradients_pass(torch):
    x, w = leaf(torch, 0.3, -0.7), leaf(torch, 2.0)
    assert torch.autograd.gradcheck(lambda a, b: (a.sin() * b, a.exp().sum()), (x, w))
    assert torch.autograd.gradgradcheck(lambda a, b: a.sin() * b, (x, w))
    assert torch.autograd.gradcheck(wrong(torch, 2.0), x)


@pytest.mark.parametrize("factor", [2.1, 0.0, -2.0])
def test_wrong_gradients_are_found(torch, factor):
    x = leaf(torch, 0.3, -0.7)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect"):
        torch.autograd.gradcheck(wrong(torch, factor), x)
    assert torch.autograd.gradcheck(wrong(torch, factor), x, raise_exception=False) is False


def test_a_gradient_that_is_missing_is_found(torch):
    x = leaf(torch, 0.3, -0.7)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda a: a * a.detach(), x)


def test_wrong_second_gradients_are_found(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 * (x.detach() if detached else x)

    x = leaf(torch, 0.3, -0.7)
    for detached in (False, True):
        assert torch.autograd.gradcheck(Square.apply, x)
        if not detached:
            assert torch.autograd.gradgradcheck(Square.apply, x)
            continue
        with pytest.raises(RuntimeError, match="mismatch"):
            torch.autograd.gradgradcheck(Square.apply, x)


def test_complex_gradients_are_checked(torch):
    z = torch.tensor([1 + 2j, -0.5j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: a * a.conj() + a**2, z)
    assert torch.autograd.gradcheck(lambda a: a.abs(), z)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(wrong(torch, 2.0), z)  # not conjugated


def test_gradcheck_needs_an_input_that_requires_grad(torch):
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        torch.autograd.gradcheck(lambda a: a * 2, torch.ones(1, dtype=torch.float64))


def square_sum(x):
    return (x**3).sum()


def test_jacobians(torch):
    functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert functional.jacobian(lambda a: a * a, x).tolist() == [[2, 0], [0, 4]]
    w = torch.tensor([3.0], dtype=torch.float64)
    by_x, by_w = functional.jacobian(lambda a, b: a * b, (x, w))
    assert by_x.tolist() == [[3, 0], [0, 3]] and by_w.tolist() == [[1], [2]]
    rows = functional.jacobian(lambda a: (a * 2, a.sum()), x)
    assert rows[0].tolist() == [[2, 0], [0, 2]] and rows[1].tolist() == [1, 1]
    assert functional.jacobian(lambda a: a.outer(a), x).shape == (2, 2, 2)
    assert not x.requires_grad


def test_hessians(torch):
    functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert functional.hessian(square_sum, x).tolist() == [[6, 0], [0, 12]]
    found = functional.hessian(lambda a, b: (a * a * b).sum(), (x, x))
    assert found[0][1].tolist() == [[2, 0], [0, 4]] and found[1][1].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="should contain a single element"):
        functional.hessian(lambda a: a * a, x)


def test_products_with_vectors(torch):
    functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    v = torch.tensor([1.0, 10.0], dtype=torch.float64)
    out, found = functional.vjp(lambda a: a * a.sum(), x, v)
    assert out.tolist() == [3, 6] and found.tolist() == [24, 51]
    out, found = functional.jvp(lambda a: a * a.sum(), x, v)
    assert found.tolist() == [14, 52]
    out, found = functional.vhp(square_sum, x, v)
    assert out.item() == 9 and found.tolist() == [6, 120]
    out, found = functional.hvp(square_sum, x, v)
    assert found.tolist() == [6, 120]
    with pytest.raises(RuntimeError, match="v has invalid size"):
        functional.vjp(lambda a: a * 2, x, torch.ones(3, dtype=torch.float64))
    with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
        functional.jacobian(lambda a: a, 5)


def test_strict(torch):
    functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert functional.jacobian(lambda a: torch.ones(1, dtype=torch.float64), x).tolist() == [[0, 0]]
    with pytest.raises(RuntimeError):
        functional.jacobian(lambda a: torch.ones(1, dtype=torch.float64), x, strict=True)
    with pytest.raises(RuntimeError):
        functional.hessian(lambda a: a.sum(), x, strict=True)


def test_jacobians_with_a_graph(torch):
    x = leaf(torch, 1.0, 2.0)
    found = torch.autograd.functional.jacobian(lambda a: a**3, x, create_graph=True)
    found.sum().backward()
    assert x.grad.tolist() == [6, 12]


def function(torch, **rules):
    """A Function of x -> 2x with these rules."""

    def forward(ctx, x):
        ctx.set_materialize_grads("undefined" not in rules)
        return x * 2

    methods = {"forward": staticmethod(forward)}
    backward = rules.get("undefined") or rules.get("backward") or (lambda ctx, grad: grad * 2)
    methods["backward"] = staticmethod(backward)
    if "jvp" in rules:
        methods["jvp"] = staticmethod(rules["jvp"])
    return type("Double", (torch.autograd.Function,), methods).apply


def test_backward_that_gives_other_values_each_time(torch):
    count = [0]

    def backward(ctx, grad):
        count[0] += 1
        return grad * (2 + 1e-7 * count[0])

    x, double = leaf(torch, 0.3, -0.7), function(torch, backward=backward)
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        torch.autograd.gradcheck(double, x)
    assert torch.autograd.gradcheck(double, x, nondet_tol=1e-3)


@pytest.mark.filterwarnings("ignore:Backwards compatibility:UserWarning")
def test_backward_without_gradients(torch):
    def ones(ctx, grad):
        return torch.ones(2, dtype=torch.float64) if grad is None else grad * 2

    x, double = leaf(torch, 0.3, -0.7), function(torch, undefined=ones)
    with pytest.raises(RuntimeError, match="Expected all input grads to be undefined or zero"):
        torch.autograd.gradcheck(double, x)
    assert torch.autograd.gradcheck(double, x, check_undefined_grad=False)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_is_checked(torch):
    x = leaf(torch, 0.3, -0.7)
    assert torch.autograd.gradcheck(
        lambda a: a.sin() * a, x, check_forward_ad=True, check_batched_forward_grad=True
    )
    right = function(torch, jvp=lambda ctx, tangent: tangent * 2)
    assert torch.autograd.gradcheck(right, x, check_forward_ad=True)
    wrong_rule = function(torch, jvp=lambda ctx, tangent: tangent * 3)
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
        torch.autograd.gradcheck(wrong_rule, x, check_forward_ad=True)


def test_batched_gradients_are_checked(torch):
    x = leaf(torch, 0.3, -0.7)
    assert torch.autograd.gradcheck(lambda a: a.sin() * a, x, check_batched_grad=True)
    reads = function(torch, backward=lambda ctx, grad: grad * 2 + 0 * grad.sum().item())
    with pytest.raises(RuntimeError, match="While computing batched gradients, got"):
        torch.autograd.gradcheck(reads, x, check_batched_grad=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_backward_ad": False}, "at least one of check_forward_ad or check_backward_ad"),
        ({"check_batched_forward_grad": True}, "requires check_forward_ad to be True"),
    ],
)
def test_options_that_do_not_go_together(torch, options, message):
    with pytest.raises(AssertionError, match=message):
        torch.autograd.gradcheck(lambda a: a * 2, leaf(torch, 1.0), **options)


def test_outputs_and_inputs_that_cannot_be_checked(torch):
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        torch.autograd.gradcheck(lambda a: (a * 2).detach(), leaf(torch, 1.0))
    expanded = torch.ones(1, dtype=torch.float64).expand(2).requires_grad_()
    with pytest.raises(RuntimeError, match="has a dimension with stride 0"):
        torch.autograd.gradcheck(lambda a: a * 2, expanded)
    with pytest.raises(AssertionError, match="check_fwd_over_rev or check_rev_over_rev"):
        torch.autograd.gradgradcheck(lambda a: a**3, leaf(torch, 1.0), check_rev_over_rev=False)
    assert torch.autograd.gradgradcheck(
        lambda a: a**3, leaf(torch, 1.0, 2.0), gen_non_contig_grad_outputs=True
    )
