"""The collectives, over threads with a process group each, against NumPy."""

import numpy as np
import pytest

import ember as torch
from ember.distributed import ReduceOp

SIZES = [3, 0, 20_000]  # sent whole, empty, in parts
OPS = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}
BITS = {
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def values(rank, size, dtype=np.float32):
    return np.random.default_rng(rank).integers(1, 5, size).astype(dtype)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_all_reduce(groups, count, size):
    def work(group):
        found = []
        for op in OPS:
            x = torch.from_numpy(values(group.rank(), size))
            group.allreduce([x], op)
            found.append(x.numpy())
        return found

    wanted = [np.array([values(r, size) for r in range(count)]) for _ in OPS]
    wanted = [ufunc.reduce(w) for ufunc, w in zip(OPS.values(), wanted, strict=True)]
    for found in groups(count, work):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("size", [3, 20_000])
def test_all_ranks_get_the_same_bits(groups, size):
    def work(group):
        torch_values = np.random.default_rng(group.rank()).standard_normal(size)
        x = torch.from_numpy(torch_values.astype(np.float32))
        group.allreduce([x])
        return x.numpy().tobytes()

    assert len(set(groups(3, work))) == 1


def test_bits_and_integers(groups):
    def work(group):
        found = []
        for op in BITS:
            x = torch.tensor([group.rank() + 1, 6])
            group.allreduce([x], op)
            found.append(x.tolist())
        x = torch.tensor([group.rank(), -3])
        group.allreduce([x], ReduceOp.AVG)
        return [*found, x.tolist()]

    assert groups(3, work) == [[[0, 6], [3, 6], [0, 6], [1, -3]]] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(groups, dtype):
    small = 1 / 256 if dtype is torch.bfloat16 else 1 / 2048

    def work(group):
        x = torch.tensor([1.0 if group.rank() == 0 else small], dtype=dtype)
        group.allreduce([x])
        return x.item()

    # 1 + small is a tie that rounds to 1; two of them are one step up.
    assert groups(3, work) == [1 + 2 * small] * 3


def test_bool_and_complex(groups):
    def work(group):
        x = torch.tensor([group.rank() == 0, False])
        group.allreduce([x])
        y = torch.tensor([1 + 2j * group.rank()])
        group.allreduce([y], ReduceOp.AVG)
        return x.tolist(), y.tolist()

    assert groups(2, work) == [([True, False], [1 + 1j])] * 2


def test_premultiplied_sum(groups):
    from ember.distributed import _make_nccl_premul_sum

    def work(group):
        x = torch.tensor([1.0, 2.0])
        group.allreduce([x], _make_nccl_premul_sum(0.5))
        return x.tolist()

    assert groups(2, work) == [[1.0, 2.0]] * 2


def test_views_keep_what_is_around_them(groups):
    def work(group):
        x = torch.zeros(3, 4)
        x[:, 1] += group.rank() + 1
        before = x._version
        group.allreduce([x[:, 1]])
        assert x._version > before
        return x.tolist()

    assert groups(2, work) == [[[0, 3, 0, 0]] * 3] * 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast_reduce(groups, size, root):
    def work(group):
        x = torch.from_numpy(values(group.rank(), size))
        group.broadcast([x], root)
        y = torch.from_numpy(values(group.rank(), size))
        group.reduce(y, root)
        return x.numpy(), y.numpy()

    found = groups(4, work)
    for rank, (x, y) in enumerate(found):
        np.testing.assert_array_equal(x, values(root, size))
        total = sum(values(r, size) for r in range(4))
        np.testing.assert_array_equal(y, total if rank == root else values(rank, size))


def test_gathering(groups):
    def work(group):
        rank, size = group.rank(), group.size()
        own = torch.full((2,), rank)
        every = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
        group.allgather(every, own)
        joined = torch.zeros(2 * size, dtype=torch.int64)
        group.allgather_into(joined, own)
        there = [torch.zeros(2, dtype=torch.int64) for _ in range(size)] if rank == 1 else []
        group.gather(there, own, 1)
        return torch.stack(every).tolist(), joined.tolist(), [t.tolist() for t in there]

    rows = [[0, 0], [1, 1], [2, 2]]
    flat = [0, 0, 1, 1, 2, 2]
    assert groups(3, work) == [(rows, flat, []), (rows, flat, rows), (rows, flat, [])]


def test_scattering(groups):
    def work(group):
        rank, size = group.rank(), group.size()
        parts = [torch.full((2,), float(10 * rank + i)) for i in range(size)]
        own, total = torch.zeros(2), torch.zeros(2)
        group.scatter(own, parts if rank == 1 else [], 1)
        group.reduce_scatter(total, parts)
        swapped = [torch.zeros(2) for _ in range(size)]
        group.alltoall(swapped, parts)
        return own[0].item(), total[0].item(), [t[0].item() for t in swapped]

    assert groups(3, work) == [
        (10.0 + r, 30.0 + 3 * r, [float(r), 10.0 + r, 20.0 + r]) for r in range(3)
    ]


def test_all_to_all_of_uneven_rows(groups):
    def work(group):
        rank = group.rank()
        given = torch.arange(3.0).reshape(3, 1) + 10 * rank
        sizes = [1, 2] if rank == 0 else [2, 1]
        made = torch.zeros(sum([[1, 2], [2, 1]][r][rank] for r in range(2)), 1)
        out = [1, 2] if rank == 0 else [2, 1]
        group.alltoall_base(made, given, out, sizes)
        return made.flatten().tolist()

    assert groups(2, work) == [[0, 10, 11], [1, 2, 12]]
    with pytest.raises(RuntimeError, match="does not divide equally"):
        groups(2, lambda g: g.alltoall_base(torch.zeros(3), torch.zeros(3), None, None))
    with pytest.raises(RuntimeError, match="Split sizes doesn't match"):
        groups(2, lambda g: g.alltoall_base(torch.zeros(3), torch.zeros(3), [1, 1], [1, 2]))


def test_background(groups):
    def work(group):
        tensors = [torch.full((5,), float(i)) for i in range(4)]
        works = [group.allreduce([t], in_background=True) for t in tensors]
        view = torch.ones(2, 2)
        pending = group.allreduce([view.t()[0]], in_background=True)
        here = torch.ones(1)
        group.allreduce([here])  # beside those in the background
        assert all(w.wait() and w.is_completed() and w.is_success() for w in works)
        assert pending.get_future().wait()[0].tolist() == [2, 2]
        assert pending.result()[0].tolist() == [2, 2]
        doubled = works[1].get_future().then(lambda f: f.value()[0] * 2)
        return [t[0].item() for t in tensors], here.item(), view.tolist(), doubled.wait()[0].item()

    assert groups(2, work) == [([0, 2, 4, 6], 2, [[2, 1], [2, 1]], 4)] * 2


def test_send_and_receive(groups):
    def work(group):
        if group.rank() == 0:
            group.send([torch.arange(3.0)], 1, tag=1)
            group.send([torch.arange(3.0) + 1], 1, tag=2)
            group.send([torch.arange(3.0) + 2], 1, tag=2)
            return None
        second, first, third = torch.zeros(3), torch.zeros(3), torch.zeros(3)
        group.recv(second, 0, tag=2).wait()
        group.recv(first, 0, tag=1).wait()
        later = group.recv(third, None, tag=2)
        later.wait()
        assert later.is_completed()
        return first.tolist(), second.tolist(), third.tolist(), later.source_rank()

    assert groups(2, work)[1] == ([0, 1, 2], [1, 2, 3], [2, 3, 4], 0)


def test_asking_for_a_message_does_not_wait(groups):
    def work(group):
        if group.rank() == 1:
            x = torch.zeros(1)
            receiving = group.recv(x, 0)
            assert not receiving.is_completed()  # rank 0 sends after the barrier
            group.barrier()
            group.barrier()
            assert receiving.is_completed()
            return x.item()
        group.barrier()
        group.send([torch.ones(1)], 1)
        group.barrier()
        return None

    assert groups(2, work) == [None, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.broadcast([torch.ones(1)], 5), "broadcast: invalid root rank: 5"),
        (
            lambda g: g.allgather([torch.ones(3)], torch.ones(2)),
            r"allgather: invalid tensor size at index 0 \(expected \(2\), got \(3\)\)",
        ),
        (
            lambda g: g.allgather([torch.ones(2)] * 2, torch.ones(2)),
            r"invalid output tensor list at index 0 \(expected length 1, got 2\)",
        ),
        (
            lambda g: g.allgather([torch.ones(2).long()], torch.ones(2)),
            "invalid tensor type at index 0",
        ),
        (
            lambda g: g.allreduce([torch.ones(2)], ReduceOp.BAND),
            "Cannot use ReduceOp.BAND with non-integral dtype",
        ),
        (lambda g: g.allreduce([torch.ones(2, device="meta")]), "device type meta"),
        (lambda g: g.alltoall([torch.ones(1)] * 2, [torch.ones(1)]), "needs 1 tensors"),
    ],
)
def test_wrong_arguments(groups, call, message):
    with pytest.raises(RuntimeError, match=message):
        groups(1, call)


def test_complex_numbers_have_no_order(groups):
    with pytest.raises(ValueError, match="does not support MAX on complex"):
        groups(1, lambda g: g.allreduce([torch.ones(1, dtype=torch.complex64)], ReduceOp.MAX))
