"""The functions that programs call: arguments, what they return, objects, sends and receives."""

import pytest

import ember as torch
import ember.distributed as dist


def test_results_of_one_process(alone):
    x = torch.ones(3)
    assert dist.all_reduce(x) is None
    work = dist.all_reduce(x, async_op=True)
    assert isinstance(work, dist.Work)
    assert work.wait() is True
    assert work.get_future().value()[0] is x
    made = torch.zeros(2, 3)
    dist.all_gather_into_tensor(made[:1], x)
    dist.reduce_scatter_tensor(made[1], x)
    assert made.tolist() == [[1, 1, 1], [1, 1, 1]]
    y = torch.zeros(3)
    dist.all_to_all_single(y, x)
    dist.all_to_all([y], [x])
    dist.gather(x, [y])
    dist.scatter(y, [x])
    dist.reduce_scatter(y, [x])
    dist.all_gather([y], x)
    dist.reduce(y, 0)
    dist.broadcast(y, 0)
    assert dist.all_reduce_coalesced([x, y]) is None
    dist.all_gather_coalesced([[torch.zeros(3), torch.zeros(3)]], [x, y])
    dist.barrier()
    dist.monitored_barrier()
    assert y.tolist() == [1, 1, 1]
    leaf = torch.ones(2, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.is_leaf


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: dist.all_reduce(1), TypeError, "Expected parameter `tensor` of type torch.T"),
        (lambda x: dist.all_gather(x, x), TypeError, "`tensor_list` of type List"),
        (lambda x: dist.gather(x), ValueError, "``gather_list`` must be specified on destination"),
        (lambda x: dist.scatter(x), ValueError, "``scatter_list`` must be specified on source"),
        (lambda x: dist.broadcast(x, 5), RuntimeError, "invalid root rank: 5"),
        (lambda x: dist.all_reduce(x, op="sum"), TypeError, "ReduceOp"),
        (lambda x: dist.all_gather_into_tensor(x[:2], x), ValueError, "world_size times"),
        (lambda x: dist.reduce_scatter_tensor(x[:2], x), ValueError, "output size times world"),
        (lambda x: dist.send(x, 0), ValueError, "destination rank should not be the same"),
        (lambda x: dist.send(x, 3), ValueError, "Invalid destination rank: 3"),
        (lambda x: dist.send(x), ValueError, "Must specify dst or group_dst"),
        (lambda x: dist.recv(x, 0), ValueError, "source rank should not be the same"),
        (lambda x: dist.batch_isend_irecv([]), ValueError, "Invalid ``p2p_op_list``"),
        (lambda x: dist.batch_isend_irecv([1]), ValueError, "Invalid ``p2p_op_list``"),
        (lambda x: dist.P2POp(dist.all_reduce, x, 0), ValueError, "Invalid ``op``"),
        (lambda x: dist.all_reduce(x, group="no"), ValueError, "Invalid process group"),
    ],
)
def test_wrong_arguments(alone, call, kind, message):
    with pytest.raises(kind, match=message):
        call(torch.ones(3))


def test_reductions_have_names():
    assert repr(dist.ReduceOp.SUM) == "<RedOpType.SUM: 0>"
    assert dist.ReduceOp(dist.ReduceOp.SUM) == dist.ReduceOp.SUM
    assert dist.ReduceOp(dist.ReduceOp.SUM) != dist.ReduceOp.MAX
    assert dist.reduce_op.MAX is dist.ReduceOp.MAX
    with pytest.raises(TypeError, match="ReduceOp"):
        dist.ReduceOp("SUM")


def objects(rank):
    everyone = [None] * 2
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank * 1000})
    collected = [None] * 2 if rank == 1 else None
    dist.gather_object(("from", rank), collected, dst=1)
    shared = [rank, torch.tensor(rank)]
    dist.broadcast_object_list(shared, src=1)
    own = [None]
    dist.scatter_object_list(own, ["zero", {"one": 1}] if rank == 0 else None, src=0)
    if rank == 0:
        dist.send_object_list(["hello", 5], dst=1)
        received = None
    else:
        received = [None, None]
        assert dist.recv_object_list(received, src=0) == 0
    lengths = [len(each["text"]) for each in everyone]
    return lengths, collected, shared[0], shared[1].item(), own, received


def test_objects(processes):
    first, second = processes(2, objects)
    assert first == ([0, 1000], None, 1, 1, ["zero"], None)
    assert second == ([0, 1000], [("from", 0), ("from", 1)], 1, 1, [{"one": 1}], ["hello", 5])


def exchange(rank):
    x, y = torch.full((3,), float(rank)), torch.zeros(3)
    other = 1 - rank
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, y, other)]
    )
    for work in works:
        work.wait()
    if rank == 0:
        dist.send(x + 7, 1, tag=3)
        return y.tolist()
    z = torch.zeros(3, 2).t()[0]
    assert dist.recv(z, tag=3) == 0
    assert z.tolist() == [7, 7, 7]
    return y.tolist()


def test_sends_and_receives(processes):
    assert processes(2, exchange) == [[1, 1, 1], [0, 0, 0]]


def functional(rank):
    from ember.distributed import _functional_collectives as f

    group, x = dist.group.WORLD, torch.tensor([[1.0, 2.0]]) * (rank + 1)
    return (
        f.wait_tensor(f.all_reduce(x, "sum", group)).tolist(),
        f.all_gather_tensor(x, 1, group).tolist(),
        f.reduce_scatter_tensor(x, "avg", 1, group).tolist(),
        f.all_to_all_single(x.t(), None, None, group).tolist(),
        f.broadcast(x, 1, group).tolist(),
        x.tolist(),
    )


def test_functional_collectives(processes):
    first, second = processes(2, functional)
    assert first[:2] == second[:2] == ([[3, 6]], [[1, 2, 2, 4]])
    assert (first[2], second[2]) == ([[1.5]], [[3]])
    assert (first[3], second[3]) == ([[1], [2]], [[2], [4]])
    assert first[4] == second[4] == [[2, 4]]
    assert (first[5], second[5]) == ([[1, 2]], [[2, 4]])


def gradients(rank):
    f, weight = dist.nn.functional, rank + 1.0
    x = torch.full((2,), weight, requires_grad=True)

    def of(loss):
        return torch.autograd.grad(loss, x)[0].tolist()

    return [
        of((f.all_reduce(x * x) * weight).sum()),
        of(sum((t * (i + 1)).sum() for i, t in enumerate(f.all_gather(x)))),
        of((f.broadcast(x, 1) * weight).sum()),
        of(sum(f.gather(x, 0)).sum()),
        of(f.scatter([x * i for i in range(2)], 1).sum()),
        of(f.reduce_scatter(x, [x * 1, x * 3]).sum()),
        of((f.all_to_all_single(torch.empty(2), x) * weight).sum()),
        of((f.reduce(x, 0) * weight).sum()),
        of((f.all_reduce(x, dist.ReduceOp.AVG) * weight).sum()),
    ]


def test_gradients_flow_through_collectives(processes):
    first, second = processes(2, gradients)
    # d/dx_r of the sum of both processes' losses
    assert first == [[6, 6], [2, 2], [0, 0], [1, 1], [0, 0], [4, 4], [1, 2], [1, 1], [1.5, 1.5]]
    assert second == [[12, 12], [4, 4], [3, 3], [1, 1], [1, 1], [4, 4], [1, 2], [1, 1], [1.5, 1.5]]
