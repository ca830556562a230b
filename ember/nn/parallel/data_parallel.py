"""`DataParallel`: each batch cut up over the GPUs, a copy of the module on each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ember.cuda.devices import device_count, index_of, is_available
from ember.device import device as Device
from ember.errors import check
from ember.nn.modules.module import Module
from ember.nn.parallel.parallel_apply import parallel_apply
from ember.nn.parallel.replicate import replicate
from ember.nn.parallel.scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """A module whose batches are shared out over several GPUs along `dim`, results gathered on
    `output_device`.

    Parameters and buffers must be on device_ids[0] when it is called; without GPUs it is the module
    itself.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ):
        super().__init__()
        if not is_available():
            self.module, self.device_ids = module, []
            return
        ids = range(device_count()) if device_ids is None else device_ids
        check(ids, RuntimeError, "no available devices were found")
        self.dim, self.module = dim, module
        self.device_ids = [index_of(d) for d in ids]
        self.output_device = (
            self.device_ids[0] if output_device is None else index_of(output_device)
        )
        self.src_device_obj = Device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Scatter, replicate, run, gather."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in itertools.chain(self.module.parameters(), self.module.buffers()):
            check(
                tensor.device is self.src_device_obj,
                RuntimeError,
                f"module must have its parameters and buffers on device {self.src_device_obj} "
                f"(device_ids[0]) but found one of them on device: {tensor.device}. Move it with "
                f".to('{self.src_device_obj}') first",
            )
        given, named = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
        if not given and not named:
            given, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*given[0], **named[0])
        used = self.device_ids[: len(given)]
        outputs = parallel_apply(replicate(self.module, used), given, named, used)
        return gather(outputs, self.output_device, self.dim)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """One call of a module with its batch shared out over several GPUs."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*arguments, **(module_kwargs or {}))
