"""The settings of FullyShardedDataParallel: plain data."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from ember.nn.modules.batchnorm import _BatchNorm


class ShardingStrategy(enum.Enum):
    """What is shared out over processes."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When backward asks for the next parameters."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """What a state dict holds."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """By what an optimizer's state dict names parameters."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclass
class MixedPrecision:
    """The dtypes of parameters, reductions and buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of parameters, reductions and outputs."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters wait on the CPU."""

    offload_params: bool = False


@dataclass
class OffloadPolicy:
    """Nothing waits on the CPU."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait on the CPU."""

    pin_memory: bool = True


@dataclass
class StateDictConfig:
    """How a state dict is made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """A state dict of whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """A state dict of a process's own parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """A state dict of sharded tensors."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state dict is made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of a process's own parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of sharded tensors."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dicts and their settings."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
