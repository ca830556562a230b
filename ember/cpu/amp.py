"""`torch.cpu.amp`: automatic mixed precision under its old name."""

from ember.amp.legacy import CpuAutocast as autocast
from ember.amp.legacy import CpuGradScaler as GradScaler

__all__ = ["GradScaler", "autocast"]
