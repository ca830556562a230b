"""What `nn.SyncBatchNorm` computes over several processes."""

from __future__ import annotations

from typing import Any

from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.distributed.nn.functional import all_reduce
from ember.distributed.world import is_initialized, resolved
from ember.errors import check
from ember.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from ember.ops import tensor


def synchronized(module: Any, input: Any) -> Tensor:
    """Batch norm over the batches of all processes of a group.

    mean = Σ x / n and var = Σ (x - mean)² / n, with sums over all processes: two all-reduces in
    forward, and two in backward. The second pass over x keeps var exact where mean² is large.
    """
    group = resolved(module.process_group) if is_initialized() else None
    if group is None or group.size() == 1:
        return _BatchNorm.forward(module, input)  # type: ignore[no-any-return]
    x = input.float() if input.dtype.itemsize < 4 else input
    dims = [0, *range(2, x.ndim)]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    count = tensor([float(x.numel() // x.shape[1])], device=x.device)
    group.allreduce([count])
    n = count.item()
    check(
        n > 1,
        ValueError,
        f"Expected more than 1 value per channel when training, got input size {input.shape}",
    )
    mean = all_reduce(x.sum(dims), group=group) / n
    centred = x - mean.reshape(shape)
    var = all_reduce((centred * centred).sum(dims), group=group) / n
    made = centred * (var.reshape(shape) + module.eps).rsqrt()
    if module.weight is not None:
        made = made * module.weight.reshape(shape)
    if module.bias is not None:
        made = made + module.bias.reshape(shape)
    if module.track_running_stats and module.running_mean is not None:
        _track(module, mean.detach(), var.detach() * (n / (n - 1)))
    return made.to(input.dtype)  # type: ignore[no-any-return]


def _track(module: Any, mean: Tensor, var: Any) -> None:
    """Move the running statistics towards those of the batch."""
    with no_grad():
        module.num_batches_tracked.add_(1)
        momentum = module.momentum
        if momentum is None:
            momentum = 1.0 / float(module.num_batches_tracked)
        module.running_mean.lerp_(mean.to(module.running_mean.dtype), momentum)
        module.running_var.lerp_(var.to(module.running_var.dtype), momentum)


SyncBatchNorm.synchronized = synchronized
