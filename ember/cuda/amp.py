"""`torch.cuda.amp`: automatic mixed precision under its old name."""

from ember.amp.legacy import CudaAutocast as autocast
from ember.amp.legacy import CudaGradScaler as GradScaler
from ember.amp.legacy import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
