"""DistributedDataParallel: gradients as of one process with the whole batch."""

import pickle

import pytest

import ember as torch
import ember.distributed as dist
from ember import nn
from ember.core import engine
from ember.distributed.algorithms.ddp_comm_hooks import default_hooks
from ember.nn.parallel import DistributedDataParallel as DDP


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def compare_with_one_process(rank, options):
    torch.manual_seed(rank)  # each process begins with weights of its own
    net = nn.SyncBatchNorm.convert_sync_batchnorm(network())
    model, whole = DDP(net, **options), network()
    whole.load_state_dict(net.state_dict())
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, whole)]
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        x = torch.randn(12, 4, generator=generator)
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(x[rank * 6 : rank * 6 + 6]).pow(2).mean().backward()
        whole(x).pow(2).mean().backward()
        for ours, theirs in zip(net.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-4)
        for optimizer in optimizers:
            optimizer.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, whole.state_dict()[name], atol=1e-5, rtol=1e-4)
    return [p.detach().sum().item() for p in net.parameters()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"bucket_cap_mb": 1e-5},
    ],
    ids=str,
)
def test_gradients_of_the_whole_batch(processes, options):
    first, second = processes(2, compare_with_one_process, options)
    assert first == second


def sums_without_averaging(rank):
    net = nn.Linear(2, 1, bias=False)
    model, x = DDP(net), torch.ones(1, 2) * (rank + 1)
    with model.no_sync():
        model(x).sum().backward()
    alone = net.weight.grad.tolist()
    model(x).sum().backward()
    return alone, net.weight.grad.tolist()


def test_no_sync(processes):
    assert processes(2, sums_without_averaging) == [
        ([[1, 1]], [[3, 3]]),
        ([[2, 2]], [[3, 3]]),
    ]


class Branches(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.use = use
        self.always, self.sometimes, self.never = (nn.Linear(1, 1, bias=False) for _ in range(3))

    def forward(self, x):
        return self.always(x) + (self.sometimes(x) if self.use else 0)


def unused(rank):
    model = DDP(Branches(rank == 0), find_unused_parameters=True)
    found = []
    for _ in range(2):
        model.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        found.append([p.grad if p.grad is None else p.grad.item() for p in model.parameters()])
    return found


def test_parameters_that_some_processes_do_not_use(processes):
    assert processes(2, unused) == [[[1, 0.5, None]] * 2] * 2


class TwoResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x):
        return {"first": self.first(x), "second": [self.second(x)]}


def one_of_two(rank):
    model, found = DDP(TwoResults(), find_unused_parameters=True), []
    for _ in range(2):
        results = model(torch.ones(1, 1))
        (results["first"] if rank == 0 else results["second"][0]).sum().backward()
        found.append([p.grad.item() for p in model.parameters()])
    return found


def test_results_that_are_not_in_the_loss(processes):
    assert processes(2, one_of_two) == [[[0.5, 0.5], [1, 1]]] * 2


def test_unused_parameters_are_an_error(alone):
    model = DDP(Branches(False))
    model(torch.ones(1, 1)).sum().backward()
    with pytest.raises(RuntimeError, match="not used in producing loss") as caught:
        model(torch.ones(1, 1))
    assert "find_unused_parameters=True" in str(caught.value)
    assert "did not receive grad for rank 0: 1 2\n" in str(caught.value)
    assert "sometimes.weight, never.weight" in str(caught.value)


def hooked(rank, name, wrapped):
    hook = getattr(default_hooks, name)
    net = nn.Linear(2, 1, bias=False)
    model = DDP(net)
    model.register_comm_hook(None, hook(default_hooks.allreduce_hook) if wrapped else hook)
    model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    return net.weight.grad.tolist()


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("allreduce_hook", False),
        ("fp16_compress_hook", False),
        ("bf16_compress_hook", False),
        ("fp16_compress_wrapper", True),
    ],
)
def test_communication_hooks(processes, name, wrapped):
    assert processes(2, hooked, name, wrapped) == [[[1.5, 1.5]]] * 2


def test_a_hook_sees_the_buckets(alone):
    seen = []

    def hook(state, bucket):
        shapes = [tuple(p.shape) for p in bucket.parameters()]
        seen.append((state, bucket.index(), bucket.is_last(), shapes, len(bucket.gradients())))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0] * 2)

    net = nn.Linear(2, 3)
    model = DDP(net)
    with pytest.raises(TypeError, match="must be callable"):
        model.register_comm_hook(None, 3)
    model.register_comm_hook("state", hook)
    with pytest.raises(RuntimeError, match="can only be called once"):
        model.register_comm_hook(None, hook)
    model(torch.ones(1, 2)).sum().backward()
    assert seen == [("state", 0, True, [(3,), (3, 2)], 2)]
    assert net.bias.grad.tolist() == [2, 2, 2]


def uneven(rank, stop):
    net = nn.Linear(1, 1, bias=False)
    net.weight.data.fill_(1)
    model, steps = DDP(net), 0
    try:
        with model.join(throw_on_early_termination=stop):
            for _ in range(2 + rank):
                model.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                net.weight.data -= net.weight.grad
                steps += 1
    except RuntimeError as error:
        return steps, str(error)
    return steps, net.weight.item()


def test_join(processes):
    # Two steps of 1, then one of (0 + 1) / 2: the process that went on to the end has it.
    assert processes(2, uneven, False) == [(2, -1.5), (3, -1.5)]
    first, second = processes(2, uneven, True)
    assert "exhausted inputs" in first[1]
    assert "exhausted inputs" in second[1]


def different(rank):
    try:
        DDP(nn.Linear(2, 2 + rank))
    except dist.DistBackendError as error:
        return str(error)


def test_models_must_be_alike(processes):
    for message in processes(2, different):
        assert "params[weight] has shape [2, 2] of torch.float32 on rank 0, and [3, 2]" in message


def buffers(rank):
    net = nn.BatchNorm1d(1)
    model = DDP(net)
    net.running_mean.fill_(rank + 5.0)
    model.eval()
    with torch.no_grad():
        model(torch.ones(2, 1))
    kept = DDP(net, broadcast_buffers=False, init_sync=False)
    net.running_mean.fill_(rank + 5.0)
    kept(torch.ones(2, 1)).sum().backward()
    return (
        model.module is net,
        bool(kept.will_sync_module_buffers()),
        net.running_mean[0].item() > 4,
    )


def test_buffers(processes):
    assert processes(2, buffers) == [(True, False, True)] * 2


def test_the_wrapper(alone):
    net = nn.Linear(2, 2)
    model = DDP(net)
    assert model.module is net
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert (model.device, model.device_type, model.device_ids) == (torch.device("cpu"), "cpu", None)
    assert repr(model).startswith("DistributedDataParallel(\n  (module): Linear")
    assert nn.parallel.distributed.DistributedDataParallel is DDP
    model(torch.ones(1, 2)).sum().backward()
    copied = pickle.loads(pickle.dumps(model))
    copied.zero_grad()
    copied(torch.ones(1, 2)).sum().backward()
    assert copied.module.weight.grad.tolist() == [[1, 1], [1, 1]]
    with torch.no_grad():
        assert not model(torch.ones(1, 2)).requires_grad
    with pytest.raises(RuntimeError, match="requires a gradient"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match=r"device_ids \[0\].*cpu"):
        DDP(net, device_ids=[0])
    with pytest.raises(ValueError, match="same type of devices"):
        DDP(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, device="meta")))


def test_views_of_buckets(alone):
    model = DDP(nn.Linear(2, 2), gradient_as_bucket_view=True)
    for total in (1, 2):
        model(torch.ones(1, 2)).sum().backward()
        assert model.module.bias.grad.tolist() == [total, total]
    storages = {p.grad.untyped_storage().data_ptr() for p in model.parameters()}
    assert len(storages) == 1


def test_a_model_needs_a_group():
    with pytest.raises(ValueError, match="has not been initialized"):
        DDP(nn.Linear(1, 1))


def test_sparse_gradients_become_dense(alone):
    model = DDP(nn.Embedding(3, 1, sparse=True))
    model(torch.tensor([1, 1, 2])).sum().backward()
    assert model.module.weight.grad.tolist() == [[0], [2], [1]]


def test_callbacks_belong_to_a_backward_pass():
    seen = []
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda grad: engine.queue_callback(lambda: seen.append(x.grad.item())))
    (x * 2).backward()
    assert seen == [2]
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(lambda: None)
