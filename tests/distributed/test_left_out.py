"""Names that libraries import, and what is not there."""

import pytest

import ember as torch
from ember.distributed import _composable, _tensor, checkpoint, fsdp, rpc, tensor
from ember.distributed._tensor import experimental
from ember.distributed.checkpoint import hf_storage
from ember.distributed.fsdp import wrap
from ember.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from ember.distributed.tensor import parallel


@pytest.mark.parametrize(
    "make",
    [
        lambda: fsdp.FullyShardedDataParallel(torch.nn.Linear(1, 1)),
        lambda: fsdp.FullyShardedDataParallel.optim_state_dict(1, 2),
        lambda: fsdp.fully_shard(torch.nn.Linear(1, 1)),
        lambda: tensor.DTensor(),
        lambda: tensor.DTensor.from_local(torch.ones(1)),
        lambda: tensor.distribute_tensor(torch.ones(1)),
        lambda: experimental.implicit_replication(),
        lambda: hf_storage.HuggingFaceStorageReader("x"),
        lambda: parallel.ColwiseParallel(),
        lambda: parallel.parallelize_module(1),
        lambda: checkpoint.save({}),
        lambda: checkpoint.FileSystemReader("x"),
        lambda: rpc.init_rpc("x"),
        lambda: ShardedGradScaler(),
    ],
)
def test_use_is_refused(make):
    with pytest.raises(NotImplementedError, match=r"torch\.distributed\.\S+ is not there"):
        make()


def test_asking_is_answered():
    assert not isinstance(torch.ones(1), tensor.DTensor)
    assert not isinstance(torch.nn.Linear(1, 1), fsdp.FSDPModule | fsdp.FullyShardedDataParallel)
    assert not rpc.is_available()
    assert _tensor.DTensor is tensor.DTensor
    assert _composable.fsdp.fully_shard is fsdp.fully_shard
    assert fsdp.ShardingStrategy.FULL_SHARD.value == 1
    assert fsdp.CPUOffload() == fsdp.CPUOffload(offload_params=False)
    assert tensor.Shard(1).is_shard(1)
    assert not tensor.Shard(1).is_shard(0)
    assert tensor.Replicate().is_replicate()
    assert [repr(tensor.Shard(1)), str(tensor.Shard(1))] == ["Shard(dim=1)", "S(1)"]
    assert [repr(tensor.Partial()), str(tensor.Partial())] == ["Partial(sum)", "P(sum)"]


def test_rules_for_wrapping():
    linear = torch.nn.Linear(1, 1)
    assert wrap.transformer_auto_wrap_policy(linear, False, 0, {torch.nn.Linear})
    assert not wrap.transformer_auto_wrap_policy(linear, False, 0, {torch.nn.ReLU})
    assert wrap.size_based_auto_wrap_policy(linear, False, 10, 10)
    assert not wrap.size_based_auto_wrap_policy(linear, True, 9, 10)
    assert not wrap.size_based_auto_wrap_policy(torch.nn.ModuleList(), False, 10, 10)
    assert wrap.ModuleWrapPolicy([torch.nn.Linear])(linear, False)
