"""Meta tensors: every kind of op gives the shape, dtype and strides of the real one."""

import pytest

import ember

F = ember.nn.functional


def made(*shape, device, dtype=None):
    return ember.ones(*shape, device=device, dtype=dtype)


OPS = {
    "unary": lambda d: made(2, 3, device=d).exp(),
    "binary": lambda d: made(2, 1, device=d) + made(3, device=d),
    "number": lambda d: made(2, 3, device=d) * 2,
    "promotion": lambda d: made(2, device=d) + made(2, device=d, dtype=ember.float64),
    "integers": lambda d: made(2, device=d, dtype=ember.int32) / 2,
    "comparison": lambda d: made(2, 3, device=d) > 1,
    "where": lambda d: ember.where(made(2, 1, device=d) > 0, made(3, device=d), 0.5),
    "transposed": lambda d: made(2, 3, device=d).t().exp(),
    "sum": lambda d: made(2, 3, device=d).sum(1, keepdim=True),
    "sum all": lambda d: made(2, 3, device=d, dtype=ember.int8).sum(),
    "mean": lambda d: made(2, 3, device=d).mean((0, 1)),
    "max": lambda d: made(2, 3, device=d).max(1),
    "argmax": lambda d: made(2, 3, device=d).argmax(0),
    "var": lambda d: made(2, 3, device=d).var(0),
    "softmax": lambda d: made(2, 3, device=d).softmax(1),
    "layer_norm": lambda d: F.layer_norm(made(2, 3, device=d), (3,)),
    "view": lambda d: made(2, 6, device=d).view(3, 4)[1:, ::2],
    "expand": lambda d: made(2, 1, device=d).expand(2, 5),
    "reshape": lambda d: made(2, 3, device=d).t().reshape(6),
    "contiguous": lambda d: made(2, 3, device=d).t().contiguous(),
    "clone": lambda d: made(2, 3, device=d).t().clone(),
    "to": lambda d: made(2, 3, device=d).to(ember.float16),
    "split": lambda d: made(5, 3, device=d).split(2),
    "unbind": lambda d: made(2, 3, device=d).unbind(1),
    "matmul": lambda d: made(4, 2, 3, device=d) @ made(3, 5, device=d),
    "linear": lambda d: F.linear(made(2, 3, device=d), made(4, 3, device=d), made(4, device=d)),
    "einsum": lambda d: ember.einsum("ij,kj->ik", made(2, 3, device=d), made(4, 3, device=d)),
    "conv2d": lambda d: F.conv2d(made(2, 3, 8, 8, device=d), made(4, 3, 3, 3, device=d), stride=2),
    "max_pool2d": lambda d: F.max_pool2d(made(1, 2, 8, 8, device=d), 2),
    "cat": lambda d: ember.cat([made(2, 3, device=d), made(1, 3, device=d)]),
    "stack": lambda d: ember.stack([made(2, device=d), made(2, device=d)], 1),
    "index": lambda d: made(4, 3, device=d)[:, [0, 2]],
    "gather": lambda d: made(4, 3, device=d).gather(1, made(4, 2, device=d, dtype=ember.int64)),
    "index_select": lambda d: made(4, 3, device=d).index_select(0, ember.tensor([1], device=d)),
    "embedding": lambda d: F.embedding(
        made(2, 5, device=d, dtype=ember.int64), made(7, 3, device=d)
    ),
    "sort": lambda d: made(2, 3, device=d).sort(0),
    "topk": lambda d: made(2, 5, device=d).topk(2),
    "cumsum": lambda d: made(2, 3, device=d).cumsum(1),
    "flip": lambda d: made(2, 3, device=d).flip(0),
    "roll": lambda d: made(2, 3, device=d).roll(1, 0),
    "tril": lambda d: made(3, 3, device=d).tril(),
    "repeat": lambda d: made(2, 3, device=d).repeat(2, 2),
    "pad": lambda d: F.pad(made(2, 3, device=d), (1, 2)),
    "cross_entropy": lambda d: F.cross_entropy(
        made(2, 3, device=d), ember.zeros(2, device=d, dtype=ember.int64)
    ),
    "mse_loss": lambda d: F.mse_loss(made(2, 3, device=d), made(2, 3, device=d)),
    "dropout": lambda d: F.dropout(made(2, 3, device=d)),
    "rand": lambda d: ember.rand(2, 3, device=d),
    "arange": lambda d: ember.arange(1, 10, 3, device=d),
    "tensor": lambda d: ember.tensor([[1.0, 2.0]], device=d),
    "zeros_like": lambda d: ember.zeros_like(made(2, 3, device=d).t()),
    "add_": lambda d: made(2, 3, device=d).add_(made(3, device=d)),
    "fill_": lambda d: made(2, 3, device=d).fill_(3),
    "copy_": lambda d: made(2, 3, device=d).copy_(made(3, device=d)),
    "uniform_": lambda d: made(2, 3, device=d).uniform_(),
    "setitem": lambda d: written(made(2, 3, device=d)),
    "attention": lambda d: F.scaled_dot_product_attention(*[made(1, 2, 4, 8, device=d)] * 3),
    "module": lambda d: ember.nn.Sequential(
        ember.nn.Conv1d(3, 4, 3, device=d), ember.nn.BatchNorm1d(4, device=d), ember.nn.ReLU()
    )(made(2, 3, 9, device=d)),
}


def written(tensor):
    tensor[0] = 1.0
    tensor[:, [0, 2]] = 2.0
    return tensor


def facts(found):
    if isinstance(found, (tuple, list)):
        return [facts(f) for f in found]
    return tuple(found.shape), found.dtype, found.stride(), found.requires_grad, found.is_leaf


def devices(found):
    if isinstance(found, (tuple, list)):
        return {d for f in found for d in devices(f)}
    return {found.device.type}


@pytest.mark.parametrize("name", OPS)
def test_meta_ops_have_the_facts_of_real_ones(name):
    found = OPS[name]("meta")
    assert devices(found) == {"meta"}
    assert facts(found) == facts(OPS[name]("cpu"))


def test_backward_on_meta():
    model = ember.nn.Sequential(ember.nn.Linear(3, 4), ember.nn.GELU(), ember.nn.Linear(4, 1)).to(
        "meta"
    )
    model(ember.ones(5, 3, device="meta")).sum().backward()
    assert [tuple(p.grad.shape) for p in model.parameters()] == [(4, 3), (4,), (1, 4), (1,)]
    assert all(p.grad.is_meta for p in model.parameters())


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        lambda x: float(x),
        lambda x: bool(x),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: ember.ones(1).copy_(x),
        lambda x: x.unique(),
        lambda x: [1, 2][x.long()],
    ],
)
def test_there_is_nothing_to_read(read):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        read(ember.ones(1, device="meta"))


def test_meta_tensors_have_no_memory():
    x = ember.empty(1 << 40, device="meta")
    assert x.numel() == 1 << 40 and (x + 1).shape == x.shape and x.nbytes == 4 << 40
    assert x.data_ptr() == 0 and x.untyped_storage().nbytes() == 4 << 40
    assert "device='meta'" in repr(x) and "size=(1099511627776,)" in repr(x)


def test_meta_does_not_mix():
    with pytest.raises(RuntimeError, match="device"):
        ember.ones(2, device="meta") + ember.ones(2)
    x = ember.ones(2)
    with pytest.raises((RuntimeError, NotImplementedError)):
        x.copy_(ember.ones(2, device="meta"))
    assert x.tolist() == [1, 1] and x._version == 0


def test_wrong_shapes_are_noticed_on_meta():
    with pytest.raises(RuntimeError, match="must match the size"):
        ember.ones(2, device="meta") + ember.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ember.ones(2, 3, device="meta") @ ember.ones(2, 3, device="meta")
