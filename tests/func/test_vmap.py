"""vmap: where the batch is in arguments and results, writes, indexing, nesting, and what it
refuses."""

import pytest

import ember


def wave(torch, *shape, phase=0.3, dtype=None):
    count = 1
    for size in shape:
        count *= size
    steps = torch.arange(count, dtype=dtype or torch.float64)
    return (steps * 1.7 + phase).sin().reshape(shape)


def looped(torch, function, *batches):
    """What vmap must give: the function of each element, stacked."""
    return torch.stack([function(*row) for row in zip(*batches, strict=True)])


CASES = {
    "elementwise": lambda torch, a: a.exp() * 2 - a,
    "other ranks": lambda torch, a: a * a.sum() + a[:, None],
    "reduction": lambda torch, a: a.sum(),
    "row": lambda torch, a: a.softmax(0),
    "layout": lambda torch, a: a.view(2, 2).t().reshape(-1),
    "product": lambda torch, a: a.view(2, 2) @ a.view(2, 2),
    "join": lambda torch, a: torch.cat([a, torch.ones(2, dtype=a.dtype)]),
    "sort": lambda torch, a: a.sort(descending=True).values,
    "scan": lambda torch, a: a.cumsum(0),
    "indices": lambda torch, a: a[[0, 2, 2]],
    "newaxis": lambda torch, a: a[None, ..., ::2],
    "like": lambda torch, a: torch.zeros_like(a) + a.new_ones(3, 1),
    "cast": lambda torch, a: a.float().long(),
    "strided": lambda torch, a: a.as_strided((2, 2), (1, 2)),
    "einsum": lambda torch, a: torch.einsum("i,j->ij", a, a),
    "solve": lambda torch, a: torch.linalg.solve(a.view(2, 2), a[:2]),
    "fft": lambda torch, a: torch.fft.fft(a).abs(),
}


@pytest.mark.parametrize("name", CASES)
def test_is_the_loop(torch, name):
    x = wave(torch, 3, 4)
    found = torch.vmap(lambda a: CASES[name](torch, a))(x)
    wanted = looped(torch, lambda a: CASES[name](torch, a), x)
    assert found.dtype == wanted.dtype
    assert torch.allclose(found, wanted)


def test_values(torch):
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    vector = torch.tensor([1.0, 10.0])
    assert torch.vmap(torch.dot, in_dims=(0, None))(rows, vector).tolist() == [21.0, 43.0, 65.0]
    assert torch.vmap(lambda c: c.sum(), in_dims=1)(rows).tolist() == [9.0, 12.0]
    assert torch.vmap(lambda c: c * 2, in_dims=-1, out_dims=-1)(rows).tolist() == [
        [2.0, 4.0],
        [6.0, 8.0],
        [10.0, 12.0],
    ]


def test_trees(torch):
    x, v = wave(torch, 3, 4), wave(torch, 4, phase=1)

    def function(tree, scale):
        return {"sum": tree["a"] + tree["b"][0], "twice": (tree["a"] * scale,)}

    dims = ({"a": 0, "b": [None]}, None)
    found = torch.vmap(function, in_dims=dims)({"a": x, "b": [v]}, 2.0)
    assert torch.equal(found["sum"], x + v)
    assert torch.equal(found["twice"][0], x * 2)
    moved = torch.vmap(function, in_dims=dims, out_dims={"sum": 1, "twice": 0})
    assert torch.equal(moved({"a": x, "b": [v]}, 2.0)["sum"], (x + v).T)


def test_constant_results(torch):
    x = wave(torch, 3, 4)
    assert torch.vmap(lambda a: torch.ones(2))(x).tolist() == [[1.0, 1.0]] * 3
    assert torch.vmap(lambda a: torch.ones(2), out_dims=None)(x).tolist() == [1.0, 1.0]
    assert torch.vmap(lambda a: (a, 3), out_dims=(0, None))(x)[1] == 3


def test_keyword_arguments_are_the_same_for_all(torch):
    x = wave(torch, 3, 4)
    assert torch.equal(torch.vmap(lambda a, *, k: a * k)(x, k=x[0]), x * x[0])


def test_chunks(torch):
    x = wave(torch, 5, 4)
    seen = []

    def function(a):
        seen.append(1)
        return a * 2, a.sum()

    found = torch.vmap(function, chunk_size=2, out_dims=(1, 0))(x)
    assert len(seen) == 3
    assert torch.equal(found[0], x.T * 2)
    assert torch.allclose(found[1], x.sum(1))


def test_nested(torch):
    x, y = wave(torch, 3, 4), wave(torch, 2, 4, phase=1)
    inner = torch.vmap(torch.dot, in_dims=(None, 0))
    assert torch.allclose(torch.vmap(inner, in_dims=(0, None))(x, y), x @ y.T)
    cube = wave(torch, 2, 3, 4)
    assert torch.allclose(torch.vmap(torch.vmap(lambda a: a.sum()))(cube), cube.sum(-1))
    out = torch.vmap(torch.vmap(lambda a: a * 2, in_dims=1, out_dims=1), in_dims=2)(cube)
    assert torch.allclose(out, cube.permute(2, 0, 1) * 2)


def test_promotion_is_that_of_one_element(torch):
    x = wave(torch, 3, 4, dtype=torch.float32)
    numbers = wave(torch, 3)
    assert torch.vmap(torch.mul)(x, numbers).dtype == torch.float32
    assert torch.vmap(torch.mul)(x, torch.arange(3)).dtype == torch.float32
    assert torch.vmap(lambda a: a / 2)(torch.arange(3)).dtype == torch.float32


# writes


def test_writes(torch):
    x = wave(torch, 3, 4)

    def function(a):
        b = a.clone()
        b[1] = 3.0
        b[2:] = a[:2] * 2
        b.mul_(a[0]).add_(1)
        b[0] += a[3]
        return b

    assert torch.allclose(torch.vmap(function)(x), looped(torch, function, x))


def test_writes_reach_the_batch(torch):
    x = wave(torch, 3, 4)
    before = x.clone()
    torch.vmap(lambda a: a.add_(1))(x)
    assert torch.equal(x, before + 1)


def test_unbatched_is_not_written_with_batched(torch):
    x = wave(torch, 3, 4)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic.self, .extra_args"):
        torch.vmap(lambda a: torch.zeros(4).copy_(a))(x)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        torch.vmap(lambda a: torch.zeros(3).__setitem__(0, a[0]))(x)


# indexing


def test_batched_indices(torch):
    x = wave(torch, 3, 3, 4)
    i = torch.tensor([[0, 2], [1, 1], [2, 0]])
    functions = [
        lambda a, i: a[i],
        lambda a, i: a[:, i],
        lambda a, i: a[i, i],
        lambda a, i: a[i, :, None],
        lambda a, i: a[i[0]],
        lambda a, i: a.gather(1, i[None]),
        lambda a, i: a.index_select(0, i),
        lambda a, i: a.index_put((i,), a[:2], accumulate=True),
        lambda a, i: a.scatter(0, i[None], 7.0),
    ]
    for function in functions:
        assert torch.allclose(torch.vmap(function)(x, i), looped(torch, function, x, i))
        shared = torch.vmap(function, in_dims=(None, 0))(x[0], i)
        wanted = torch.stack([function(x[0], k) for k in i])
        assert torch.allclose(shared, wanted)


def test_written_at_indices(torch):
    x, v = wave(torch, 3, 4), wave(torch, 3, 2, phase=1)
    i = torch.tensor([[0, 2], [1, 3], [2, 0]])

    def function(a, i, v):
        b = a.clone()
        b[i] = v
        return b

    assert torch.equal(torch.vmap(function)(x, i, v), looped(torch, function, x, i, v))


# random numbers


def test_randomness(torch):
    x = torch.ones(3, 4)
    with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
        torch.vmap(lambda a: a + torch.rand(4))(x)
    same = torch.vmap(lambda a: a + torch.rand(4), randomness="same")(x)
    assert torch.equal(same[0], same[1]) and torch.equal(same[0], same[2])
    different = torch.vmap(lambda a: a + torch.rand(4), randomness="different")(x)
    assert not torch.equal(different[0], different[1])
    dropped = torch.vmap(torch.nn.functional.dropout, randomness="same")(torch.ones(3, 50))
    assert torch.equal(dropped[0], dropped[1])
    orders = torch.vmap(lambda a: torch.randperm(20) + 0 * a, randomness="different")(torch.ones(3))
    assert [sorted(row) for row in orders.tolist()] == [list(range(20))] * 3
    assert not torch.equal(orders[0], orders[1])


# refusals

X = 3


@pytest.mark.parametrize(
    ("function", "options", "kind", "message"),
    [
        (lambda a: a.sum().item(), {}, RuntimeError, "It looks like you're calling .item"),
        (lambda a: int(a.sum()), {}, RuntimeError, "It looks like you're calling .item"),
        (lambda a: a if a.sum() > 0 else -a, {}, RuntimeError, "data-dependent control flow"),
        (lambda a: a[a > 0], {}, RuntimeError, "batch over indexing with a boolean mask"),
        (lambda a: a.nonzero(), {}, RuntimeError, "operators that can output dynamic shape"),
        (lambda a: a.unique(), {}, RuntimeError, "operators that can output dynamic shape"),
        (lambda a: a.requires_grad_(), {}, RuntimeError, "call Tensor.requires_grad_()"),
        (lambda a: a.sum().backward(), {}, RuntimeError, "called inside a functorch transform"),
        (lambda a: 3, {}, ValueError, "must only return Tensors, got type <class 'int'>"),
        (lambda a: a, {"out_dims": None}, ValueError, "BatchedTensor when out_dim is None"),
        (lambda a: a, {"out_dims": 2}, IndexError, "Dimension out of range"),
        (lambda a: a, {"out_dims": (0, 0)}, ValueError, "out_dims is not compatible with the"),
        (lambda a: a, {"out_dims": "x"}, ValueError, "`out_dims` must be an int, None or a"),
        (lambda a: a, {"in_dims": 5}, ValueError, "dimensionality 2 so expected in_dim to satisfy"),
        (lambda a: a, {"in_dims": None}, ValueError, "expected `in_dims` to be int or a"),
        (lambda a: a, {"in_dims": (0, 0)}, ValueError, "in_dims is not compatible with the"),
        (lambda a: a, {"in_dims": ("x",)}, ValueError, "must be either an integer dimension or"),
        (lambda a: a, {"randomness": "often"}, RuntimeError, "Only allowed values for randomness"),
        (lambda a: a, {"chunk_size": 0}, ValueError, "chunk_size should be None or greater than 0"),
    ],
)
def test_refusals(torch, function, options, kind, message):
    with pytest.raises(kind, match=message.replace("(", r"\(").replace(")", r"\)")):
        torch.vmap(function, **options)(wave(torch, 3, 4))


def test_refused_inputs(torch):
    x = wave(torch, 3, 4)
    with pytest.raises(ValueError, match="got no inputs"):
        torch.vmap(lambda a: a)()
    with pytest.raises(ValueError, match="We cannot vmap over non-Tensor arguments"):
        torch.vmap(lambda a, b: a)(x, 3)
    with pytest.raises(ValueError, match=r"got sizes \[3, 2\] for the mapped dimension"):
        torch.vmap(lambda a, b: a)(x, x[:2])


def test_nothing_stays_in_force_after_an_error(torch):
    x = wave(torch, 3, 4)
    with pytest.raises(ZeroDivisionError):
        torch.vmap(lambda a: 1 // 0)(x)
    assert x.clone().requires_grad_().requires_grad
    assert float(x[0, 0]) == x[0, 0].item()


def test_gradients_pass_through(torch):
    x = wave(torch, 3, 4).requires_grad_()
    w = wave(torch, 4, phase=1).requires_grad_()
    out = torch.vmap(lambda a, w: (a * w).sin().sum(), in_dims=(0, None))(x, w)
    out.sum().backward()
    assert torch.allclose(x.grad, (x * w).cos() * w)
    assert torch.allclose(w.grad, ((x * w).cos() * x).sum(0))


def test_detached_inside(torch):
    x = wave(torch, 3, 4).requires_grad_()
    torch.vmap(lambda a: (a * a.detach()).sum())(x).sum().backward()
    assert torch.equal(x.grad, x.detach())


def test_text(torch):
    seen = []

    def function(a):
        seen.append(repr(a))
        return a

    torch.vmap(torch.vmap(function))(torch.tensor([[[1.0, 2.0]]]))
    assert seen[0] == (
        "BatchedTensor(lvl=2, bdim=0, value=\n"
        "    BatchedTensor(lvl=1, bdim=0, value=\n"
        "        tensor([[[1., 2.]]])\n"
        "    )\n"
        ")"
    )


def test_escaped_tensors():
    kept = []
    ember.vmap(lambda a: kept.append(a) or a)(ember.ones(2, 2))
    for use in (lambda a: a + 1, lambda a: a.sum(), lambda a: a.numpy()):
        with pytest.raises(RuntimeError, match="outside of the vmap it belongs to"):
            use(kept[0])
    with pytest.raises(RuntimeError, match="outside of the vmap it belongs to"):
        ember.vmap(lambda a: a + kept[0])(ember.ones(2, 2))
