"""`torch.signal`: windows."""

from ember.signal import windows

__all__ = ["windows"]
