"""Storages, the memory behind tensors: `torch.storage`."""

from ember.core.storages import UntypedStorage
from ember.core.typed_storages import LEGACY_CLASSES, TypedStorage

globals().update(LEGACY_CLASSES)

__all__ = ["TypedStorage", "UntypedStorage", *LEGACY_CLASSES]
