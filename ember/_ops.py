"""`torch._ops`: the classes of what `torch.ops` holds."""

from ember.ops.packets import OpNamespace as _OpNamespace
from ember.ops.packets import OpOverload, OpOverloadPacket, load_library, namespace

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace", "load_library", "namespace"]
