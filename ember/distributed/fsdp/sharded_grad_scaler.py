"""`ShardedGradScaler`: only its name."""

from __future__ import annotations

from ember.amp.grad_scaler import GradScaler
from ember.distributed.left_out import left_out_class

ShardedGradScaler = left_out_class(
    __name__, "ShardedGradScaler", "use torch.amp.GradScaler: gradients are not sharded", GradScaler
)
