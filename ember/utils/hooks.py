"""`torch.utils.hooks`: the handle that takes a hook away again."""

from ember.core.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
