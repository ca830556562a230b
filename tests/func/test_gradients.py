"""grad, vjp, jvp, jacrev, jacfwd, hessian, linearize: values, nesting, structures, refusals."""

import pytest

# PyTorch compiles its own rules for forward mode at their first use, with a tool that is deprecated
pytestmark = pytest.mark.filterwarnings("ignore")


def wave(torch, *shape, phase=0.3):
    count = 1
    for size in shape:
        count *= size
    steps = torch.arange(count, dtype=torch.float64)
    return (steps * 1.7 + phase).sin().reshape(shape)


def bend(x):
    """A function from a vector to a matrix without symmetry."""
    return (x.softmax(0) * x).exp().outer(x).tanh()


def test_grad_values(torch):
    grad = torch.func.grad
    x = torch.tensor([1.0, 2.0, 3.0])
    assert grad(lambda y: (y**3).sum())(x).tolist() == [3.0, 12.0, 27.0]
    assert grad(lambda y: grad(lambda z: (z**3).sum())(y).sum())(x).tolist() == [6.0, 12.0, 18.0]
    value = torch.func.grad_and_value(lambda y: (y * y).sum())(x)
    assert value[0].tolist() == [2.0, 4.0, 6.0] and value[1].item() == 14.0
    assert not value[0].requires_grad and not value[1].requires_grad
    assert grad(lambda y: torch.ones(()))(x).tolist() == [0.0, 0.0, 0.0]


def test_structures(torch):
    grad, x = torch.func.grad, torch.tensor([1.0, 2.0])
    found = grad(lambda d: d["a"].sum() + 2 * d["b"][0].sum())({"a": x, "b": [x]})
    assert found["a"].tolist() == [1.0, 1.0] and found["b"][0].tolist() == [2.0, 2.0]
    both = grad(lambda a, b: (a * b).sum(), argnums=(1, 0))(x, x * 3)
    assert both[0].tolist() == [1.0, 2.0] and both[1].tolist() == [3.0, 6.0]
    found, aux = grad(lambda y: (y.sum(), {"twice": y * 2}), has_aux=True)(x)
    assert found.tolist() == [1.0, 1.0] and aux["twice"].tolist() == [2.0, 4.0]
    assert not aux["twice"].requires_grad


def test_perturbations_are_not_confused(torch):
    grad, jvp = torch.func.grad, torch.func.jvp
    one, x = torch.tensor(1.0), torch.tensor(3.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(x).item() == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(one))(x).item() == 6.0
    assert grad(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1])(x).item() == 6.0
    inner = jvp(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1], (x,), (one,))
    assert inner[0].item() == 9.0 and inner[1].item() == 6.0
    assert jvp(lambda x: x * grad(lambda y: x * y)(one), (x,), (one,))[1].item() == 6.0


def test_vjp(torch):
    x = wave(torch, 3)
    value, pull = torch.func.vjp(lambda y: (y * 2, y.sum()), x)
    assert torch.equal(value[0], x * 2)
    assert torch.equal(pull((x, torch.tensor(1.0, dtype=x.dtype)))[0], 2 * x + 1)
    assert torch.equal(pull((x, torch.tensor(0.0, dtype=x.dtype)))[0], 2 * x)
    _, pull, aux = torch.func.vjp(lambda y: (y * 2, y), x, has_aux=True)
    assert torch.equal(aux, x)
    _, pull = torch.func.vjp(lambda y, z: y * 2, x, x)
    assert torch.equal(pull(x)[1], torch.zeros_like(x))


def test_jvp_and_linearize(torch):
    x, t = wave(torch, 3), wave(torch, 3, phase=1)
    value, moved = torch.func.jvp(lambda y: y * y.sin(), (x,), (t,))
    assert torch.allclose(moved, (x.sin() + x * x.cos()) * t)
    assert torch.equal(value, x * x.sin())
    out, push = torch.func.linearize(bend, x)
    assert torch.allclose(push(t), torch.func.jvp(bend, (x,), (t,))[1])
    assert torch.equal(out, bend(x))
    constant = torch.func.jvp(lambda y: torch.ones(2), (x,), (t,))
    assert constant[1].tolist() == [0.0, 0.0]


def test_jacobians_agree(torch):
    func, x = torch.func, wave(torch, 3)
    wanted = torch.autograd.functional.jacobian(bend, x)
    for made in (
        func.jacrev(bend),
        func.jacfwd(bend),
        func.jacrev(bend, chunk_size=2),
        func.jacrev(bend, chunk_size=1),
    ):
        assert torch.allclose(made(x), wanted)
    tree = func.jacrev(lambda a, b: {"o": a * b}, argnums=(0, 1))(x, x)
    assert torch.allclose(tree["o"][1], torch.diag(x))
    columns, aux = func.jacfwd(lambda a: (a * 2, a), has_aux=True)(x)
    assert torch.equal(columns, 2 * torch.eye(3, dtype=x.dtype)) and torch.equal(aux, x)


def test_hessians_agree(torch):
    func, x = torch.func, wave(torch, 3)

    def total(y):
        return bend(y).sum()

    wanted = torch.autograd.functional.hessian(total, x)
    for made in (
        func.hessian(total),
        func.jacrev(func.jacrev(total)),
        func.jacrev(func.jacfwd(total)),
        func.jacfwd(func.jacfwd(total)),
    ):
        assert torch.allclose(made(x), wanted)


def test_batches_of_derivatives(torch):
    func = torch.func
    rows, w = wave(torch, 4, 3), wave(torch, 3, phase=1)

    def total(y):
        return bend(y).sum()

    def looped(function):
        return torch.stack([function(r) for r in rows])

    assert torch.allclose(torch.vmap(func.grad(total))(rows), looped(func.grad(total)))
    assert torch.allclose(torch.vmap(func.hessian(total))(rows), looped(func.hessian(total)))
    assert torch.allclose(torch.vmap(func.jacrev(bend))(rows), looped(func.jacrev(bend)))

    def loss(w, r):
        return (w * r).sin().sum()

    each = torch.vmap(func.grad(loss), in_dims=(None, 0))
    assert torch.allclose(each(w, rows), looped(lambda r: func.grad(loss)(w, r)))
    summed = func.grad(lambda w: torch.vmap(loss, in_dims=(None, 0))(w, rows).sum())(w)
    assert torch.allclose(summed, each(w, rows).sum(0))
    outer = func.grad(lambda w: (each(w, rows) ** 2).sum())(w)
    wanted = func.grad(lambda w: sum((func.grad(loss)(w, r) ** 2).sum() for r in rows))(w)
    assert torch.allclose(outer, wanted)


def test_writes_inside(torch):
    def function(a):
        b = a.clone()
        b[0] = a[1] * a[2]
        b[1:].mul_(a[0])
        return b.pow(3).sum()

    def plain(a):
        return (a[1] * a[2]) ** 3 + ((a[1:] * a[0]) ** 3).sum()

    rows = wave(torch, 4, 3)
    func = torch.func
    assert torch.allclose(torch.vmap(func.grad(function))(rows), torch.vmap(func.grad(plain))(rows))
    assert torch.allclose(func.hessian(function)(rows[0]), func.hessian(plain)(rows[0]))
    found = torch.vmap(func.hessian(function))(rows)
    assert torch.allclose(found, torch.vmap(func.hessian(plain))(rows))


def test_outer_gradients(torch):
    x = wave(torch, 3).requires_grad_()
    slope = torch.func.grad(lambda y: (y**3).sum())(x)
    (second,) = torch.autograd.grad(slope.sum(), x)
    assert torch.allclose(second, 6 * x.detach())
    w = wave(torch, 3, phase=1).requires_grad_()
    captured = torch.func.grad(lambda y: (y * w).sum())(x.detach())
    assert captured.requires_grad
    assert torch.equal(torch.autograd.grad(captured.sum(), w)[0], torch.ones(3, dtype=w.dtype))


def test_modes_without_gradients(torch):
    x, t = wave(torch, 3), wave(torch, 3, phase=1)

    def cut(y):
        with torch.no_grad():
            return y * y

    func = torch.func
    with torch.no_grad():
        assert torch.allclose(func.grad(lambda y: (y * y).sum())(x), 2 * x)
        assert torch.allclose(func.jvp(lambda y: y * y, (x,), (t,))[1], 2 * x * t)
    assert torch.equal(func.grad(lambda y: cut(y).sum())(x), torch.zeros_like(x))
    assert torch.allclose(func.grad(lambda y: (y * cut(y)).sum())(x), x * x)
    assert torch.allclose(func.jvp(cut, (x,), (t,))[1], 2 * x * t)
    assert torch.allclose(func.grad(lambda y: (y * y.detach()).sum())(x), x)


def test_tangents_within_larger_tensors(torch):
    x, tangents = wave(torch, 4), wave(torch, 3, 4, phase=1)

    def written(a):
        b = a.clone()
        b[1:].mul_(2)
        return b

    for function in (lambda a: a.as_strided((2, 2), (1, 2)), written):
        found = torch.func.jvp(function, (x,), (tangents[1],))[1]
        assert torch.equal(found, function(tangents[1].clone()))
        leaf = x.clone().requires_grad_()
        out = function(leaf)
        given = wave(torch, 3, *out.shape, phase=2)
        (row,) = torch.autograd.grad(out, leaf, given[1], retain_graph=True)
        assert torch.equal(row, torch.autograd.grad(out, leaf, given[1].clone())[0])


def test_no_rule_is_asked_where_it_is_singular(torch):
    x, t = wave(torch, 4), wave(torch, 4, phase=1)
    found = torch.func.jvp(lambda a: a.logcumsumexp(0), (x,), (t,))[1]
    weights = x.exp()
    assert torch.allclose(found, (weights * t).cumsum(0) / weights.cumsum(0))


def sums(y):
    return y.sum()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x: f.grad(lambda y: y)(x), "Expected f(*args) to return a scalar Tensor, got"),
        (lambda f, x: f.grad(lambda y: 3)(x), "Expected f(*args) to return a Tensor, got <class"),
        (lambda f, x: f.grad(sums, has_aux=True)(x), "should be a tuple: (output, aux) if has_aux"),
        (lambda f, x: f.grad(sums, argnums=1)(x), "Got argnum=1, but only 1 positional inputs"),
        (lambda f, x: f.grad(sums, argnums="a")(x), "argnums must be int or Tuple[int, ...], got:"),
        (lambda f, x: f.grad(sums, argnums=(0, 0))(x), "argnums elements must be unique"),
        (lambda f, x: f.grad(sums)(x.long()), "only Tensors of floating point dtype can require"),
        (lambda f, x: f.grad(lambda y: y.sum().backward())(x), "called inside a functorch"),
        (lambda f, x: f.vjp(lambda y: y.argmax(), x), "must be floating-point or complex Tensors"),
        (lambda f, x: f.vjp(lambda y: (), x), "to be a function that has non-empty output (got"),
        (lambda f, x: f.jacfwd(lambda y: y + 1j)(x), "all outputs to be real but"),
        (lambda f, x: f.jacrev(lambda y: y + 1j)(x), "all outputs to be real but"),
        (lambda f, x: f.vjp(lambda y: 3, x), "expected f(*primals) to return only tensors, got"),
        (lambda f, x: f.vjp(lambda y: (y, y), x)[1](x), "Expected pytree structure of cotangents"),
        (lambda f, x: f.vjp(sums, x)[1](x), "Mismatch in shape: grad_output[0] has a shape of"),
        (lambda f, x: f.jvp(sums, x, x), "Expected primals to be a tuple. E.g. it should be"),
        (lambda f, x: f.jvp(sums, (x,), (x, x)), "Expected primals and tangents to have the same"),
        (lambda f, x: f.jvp(sums, (x,), (x[:2],)), "Tensor is of size [3] while the given forward"),
        (lambda f, x: f.jvp(sums, (), ()), "Expected primals to contain at least one Tensor."),
        (lambda f, x: f.jvp(sums, (3.0,), (x,)), "Expected primals to only contain Tensors, got"),
        (lambda f, x: f.linearize(sums, x)[1](x[:2]), "doesn't match the shape torch.Size([3])"),
    ],
)
def test_refusals(torch, call, message):
    with pytest.raises(RuntimeError) as caught:
        call(torch.func, wave(torch, 3))
    assert message in str(caught.value)


def test_other_refusals(torch):
    with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor"):
        torch.func.grad(sums)(3)
    with pytest.raises(ValueError, match="jacrev: `chunk_size` should be greater than 0."):
        torch.func.jacrev(sums, chunk_size=0)(wave(torch, 3))


def test_batched_gradients(torch):
    x = wave(torch, 3).requires_grad_()
    y = x * x
    (found,) = torch.autograd.grad(y, x, torch.eye(3, dtype=x.dtype), is_grads_batched=True)
    assert torch.allclose(found, torch.diag(2 * x.detach()))


def test_jacobians_at_once(torch):
    x, y = wave(torch, 3), wave(torch, 2, phase=1)
    functional = torch.autograd.functional

    def function(x, y):
        return x.outer(y).sin(), (x**2).sum()

    def number(x, y):
        return (x.outer(y).sin() ** 2).sum()

    wanted = functional.jacobian(function, (x, y))
    for options in ({}, {"strategy": "forward-mode"}):
        found = functional.jacobian(function, (x, y), vectorize=True, **options)
        for row, right in zip(found, wanted, strict=True):
            assert all(torch.allclose(a, b) for a, b in zip(row, right, strict=True))
    wanted = functional.hessian(number, (x, y))
    for options in ({}, {"outer_jacobian_strategy": "forward-mode"}):
        found = functional.hessian(number, (x, y), vectorize=True, **options)
        for row, right in zip(found, wanted, strict=True):
            assert all(torch.allclose(a, b) for a, b in zip(row, right, strict=True))
    with pytest.raises(NotImplementedError, match="implemented for `vectorize=True`"):
        functional.jacobian(number, (x, y), strategy="forward-mode")
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        functional.jacobian(number, (x, y), strategy="sideways")
    with pytest.raises(RuntimeError, match="`strict=True` and `vectorized=True` are not supported"):
        functional.jacobian(number, (x, y), vectorize=True, strict=True)
