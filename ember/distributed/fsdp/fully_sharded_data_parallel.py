"""`FullyShardedDataParallel`: only its name, and its settings."""

from __future__ import annotations

from ember.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from ember.distributed.left_out import left_out_class
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter

INSTEAD = (
    "parameters are not shared out over processes; use torch.nn.parallel.DistributedDataParallel"
)
FullyShardedDataParallel = left_out_class(
    __name__,
    "FullyShardedDataParallel",
    INSTEAD,
    Module,
    "state_dict_type set_state_dict_type get_state_dict_type optim_state_dict fsdp_modules "
    "optim_state_dict_to_load rekey_optim_state_dict full_optim_state_dict shard_full_optim_state_"
    "dict scatter_full_optim_state_dict summon_full_params clip_grad_norm_",
)
FlatParameter = left_out_class(__name__, "FlatParameter", INSTEAD, Parameter)

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FlatParameter",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]
