"""`DistributedDataParallel`: the same module in every process, trained on different data.

All processes begin with the weights of the first; each backward averages the gradients, so that the
copies stay alike.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ember.core import modes
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.distributed.algorithms.ddp_comm_hooks import default_hooks
from ember.distributed.algorithms.join import Join, Joinable, JoinHook
from ember.distributed.errors import DistBackendError
from ember.distributed.objects import all_gather_object
from ember.distributed.reducer import BuiltinCommHookType, Reducer
from ember.distributed.world import _get_default_group
from ember.errors import check
from ember.nn.modules.module import Module
from ember.nn.parallel.scatter_gather import scatter_kwargs
from ember.ops import cat

DEFAULT_BUCKET_MB = 25
SMALL_BYTES = 1 << 16  # tensors below this are joined before they are sent


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients backward averages over the processes of a group.

    Wrap the module after it is on its device. The loss must be that of this process's share of the
    batch, and an average over it. With `find_unused_parameters`, parts of the module may stay out
    of the loss; `static_graph` says that every iteration uses the same parts.

    >>> import ember as torch, ember.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Any,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ):
        Module.__init__(self)
        Joinable.__init__(self)
        check(
            mixed_precision is None
            and delay_all_reduce_named_params is None
            and bucket_cap_mb_list is None,
            NotImplementedError,
            "DistributedDataParallel: mixed_precision= (use torch.autocast), "
            "delay_all_reduce_named_params= and bucket_cap_mb_list= (use bucket_cap_mb) are not "
            "there",
        )
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        self.process_group = process_group or _get_default_group()
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = self._trained(module)
        check(
            named,
            RuntimeError,
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient.",
        )
        self._set_devices(module, device_ids, output_device)
        self.module, self.dim = module, dim
        wanted = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = True if wanted is None else wanted
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.bucket_bytes_cap = int((bucket_cap_mb or DEFAULT_BUCKET_MB) * 1024 * 1024)
        if init_sync:
            self._check_alike(named)
            self._broadcast([*module.parameters(), *module.buffers()])
        self._make_reducer(named)

    def _trained(self, module: Any) -> list[tuple[str, Tensor]]:
        """The parameters that take part, by name."""
        return [
            (name, parameter)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        ]

    def _set_devices(self, module: Any, device_ids: Any, output_device: Any) -> None:
        tensors = [p for n, p in module.named_parameters() if n not in self.parameters_to_ignore]
        places = {p.device for p in tensors}
        kinds = {place.type for place in places}
        check(
            len(kinds) == 1,
            ValueError,
            "DistributedDataParallel's input module must be on the same type of devices, but input "
            f"module parameters locate in {kinds}.",
        )
        self.device_type = next(iter(kinds))
        self.is_multi_device_module = len(places) > 1
        check(
            device_ids is None or len(device_ids) <= 1,
            ValueError,
            "device_ids can only be None or contain a single element.",
        )
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            shown = ", ".join(f"device(type={p.type!r}{_index(p)})" for p in places)
            check(
                not device_ids,
                ValueError,
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters {{{shown}}}.",
            )
            self.device_ids, self.output_device = None, None
        else:
            self.device_ids = [_number(device_ids[0])]
            self.output_device = _number(
                self.device_ids[0] if output_device is None else output_device
            )
            check(
                tensors[0].device.index == self.device_ids[0],
                ValueError,
                f"DistributedDataParallel: device_ids {self.device_ids}, but the module is on "
                f"{tensors[0].device}: move it there first",
            )
        self.device = next(iter(module.parameters())).device

    def _check_alike(self, named: list[tuple[str, Tensor]]) -> None:
        """DistBackendError unless all processes have the same parameters."""
        if self.process_group.size() == 1:
            return
        own = [(name, tuple(p.shape), str(p.dtype)) for name, p in named]
        found: list[Any] = [None] * self.process_group.size()
        all_gather_object(found, own, self.process_group)
        for rank, theirs in enumerate(found):
            if len(theirs) != len(found[0]):
                raise DistBackendError(
                    f"DDP expects same model across all ranks, but Rank 0 has {len(found[0])} "
                    f"params, while rank {rank} has inconsistent {len(theirs)} params."
                )
            for first, second in zip(found[0], theirs, strict=True):
                if first[1:] != second[1:]:
                    raise DistBackendError(
                        f"DDP expects same model across all ranks: params[{first[0]}] has shape "
                        f"{list(first[1])} of {first[2]} on rank 0, and {list(second[1])} of "
                        f"{second[2]} on rank {rank}"
                    )

    def _broadcast(self, tensors: Sequence[Tensor], root: int = 0) -> None:
        """Give all processes the tensors of one of them; small ones travel together."""
        if self.process_group.size() == 1 or not tensors:
            return
        small: dict[Any, list[Tensor]] = {}
        large = []
        for tensor in (t.detach() for t in tensors):
            if tensor.numel() * tensor.element_size() < SMALL_BYTES:
                small.setdefault((tensor.dtype, tensor.device), []).append(tensor)
            else:
                large.append(tensor)
        with modes.no_grad():
            joined = [cat([t.reshape(-1) for t in together]) for together in small.values()]
            self.process_group.broadcast([*joined, *large], root)
            for flat, together in zip(joined, small.values(), strict=True):
                sizes = [t.numel() for t in together]
                for tensor, part in zip(together, flat.split(sizes), strict=True):
                    tensor.copy_(part.reshape(tensor.shape))

    def _make_reducer(self, named: list[tuple[str, Tensor]]) -> None:
        names, parameters = zip(*named, strict=True)
        self.reducer = Reducer(
            parameters,
            names,
            self.process_group,
            self.bucket_bytes_cap,
            find_unused=self.find_unused_parameters,
            as_views=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
        )

    # the pass

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's forward, with the same buffers on all processes."""
        training = modes.state.grad and self.require_backward_grad_sync
        Join.notify_join_context(self)
        if training:
            self.reducer.check_finished(self.process_group.rank())
        if self.will_sync_module_buffers():
            self._broadcast(self._synced_buffers())
        if self.device_ids:
            given, named = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
            inputs, kwargs = (given or ((),))[0], (named or ({},))[0]
        outputs = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = self.require_backward_grad_sync
        if training:
            self.reducer.prepare(outputs)
        return outputs

    def _synced_buffers(self) -> list[Tensor]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward gives all processes the first one's buffers."""
        return bool(
            self.require_forward_param_sync and self.broadcast_buffers and self._synced_buffers()
        )

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose backward passes add up gradients without averaging them; the first one
        after it averages the sums. The forward passes must be in the block too.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        self.reducer._active = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let `hook(state, bucket)` average each bucket: it returns a future of the flat tensor.

        See `torch.distributed.algorithms.ddp_comm_hooks`. RuntimeError for a second one.
        """
        check(callable(hook), TypeError, "Communication hook must be callable.")
        signature = inspect.signature(hook)
        given = getattr(signature.parameters.get("bucket"), "annotation", inspect.Parameter.empty)
        check(
            given is inspect.Parameter.empty or "GradBucket" in str(given),
            ValueError,
            "Communication hook: bucket annotation should be dist.GradBucket.",
        )
        check(
            self.reducer.hook is None,
            RuntimeError,
            "register_comm_hook or register_builtin_comm_hook can only be called once.",
        )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        hooks = {
            BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
            BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
        }
        self.register_comm_hook(self.process_group, hooks[comm_hook_type])

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Any, names: Sequence[str]) -> None:
        module._ddp_params_and_buffers_to_ignore = names

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        sizes = [b.flat.numel() * b.flat.element_size() for b in self.reducer.buckets]
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "backend_name": self.process_group.name(),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
        }

    # uneven inputs

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block in which processes may run out of data at different times.

        Those that are done take part in the others' all-reduces with zeros.
        """
        options = {"divide_by_initial_world_size": divide_by_initial_world_size}
        return Join([self], enable, throw_on_early_termination, **options)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does for the others once it has no more data."""
        return _DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        """Where the counts of a join are."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """Whose processes join."""
        return self.process_group

    # pickles

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__["process_group"] = _get_default_group()
        self._make_reducer(self._trained(self.module))


class _DDPJoinHook(JoinHook):
    """Shadows the collectives of a pass: buffers, then each bucket, with zeros."""

    def __init__(self, ddp: DistributedDataParallel):
        self.ddp = ddp

    def main_hook(self) -> None:
        """One pass of the others."""
        ddp, reducer = self.ddp, self.ddp.reducer
        if ddp.will_sync_module_buffers():
            ddp._broadcast(ddp._synced_buffers())
        for bucket in reducer.buckets:
            bucket.flat.zero_()
            ddp.process_group.allreduce([bucket.flat])
        if reducer.find_unused or reducer.static_graph:
            reducer._used = set()
            reducer._used_anywhere()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All are done: the weights of one that went on to the end are everyone's."""
        ddp = self.ddp
        flags: list[Any] = [None] * ddp.process_group.size()
        all_gather_object(flags, is_last_joiner, ddp.process_group)
        root = flags.index(True)
        ddp._broadcast([*ddp.module.parameters(), *ddp.module.buffers()], root)


def _index(place: Device) -> str:
    return "" if place.index is None else f", index={place.index}"


def _number(place: Any) -> int:
    if isinstance(place, int):
        return place
    found = Device(place) if not isinstance(place, Device) else place
    return found.index or 0


__all__ = ["DistributedDataParallel"]
