"""`ZeroRedundancyOptimizer`: each process keeps the state of, and updates, a share of the
parameters. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", 2020, stage 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.distributed.objects import gather_object
from ember.distributed.world import resolved
from ember.errors import check
from ember.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is shared out over the processes of a group.

    Each process makes `optimizer_class` for its share, by size, of each group of parameters, and
    gives the others the new values after a step.

    >>> import ember as torch, ember.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = dist.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    >>> model(torch.ones(2)).sum().backward()
    >>> opt.step()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ):
        check(
            not overlap_with_ddp,
            NotImplementedError,
            "ZeroRedundancyOptimizer: overlap_with_ddp= is not there; step() after backward",
        )
        self.process_group = resolved(process_group)
        self._class, self._gathered = optimizer_class, []
        super().__init__(params, defaults)
        self._owners = self._shared_out()
        self.optim = optimizer_class(self._share(), **defaults)
        self._take_over_defaults()

    def _shared_out(self) -> dict[int, int]:
        """The owner of each parameter: the largest first, to whoever has least."""
        loads = [0] * self.process_group.size()
        owners: dict[int, int] = {}
        for group in self.param_groups:
            for parameter in sorted(group["params"], key=lambda p: -p.numel()):
                owner = loads.index(min(loads))
                owners[id(parameter)] = owner
                loads[owner] += parameter.numel()
        return owners

    def _own(self, group: dict[str, Any]) -> list[Tensor]:
        rank = self.process_group.rank()
        return [p for p in group["params"] if self._owners[id(p)] == rank]

    def _share(self) -> list[dict[str, Any]]:
        return [{**group, "params": self._own(group)} for group in self.param_groups]

    def _take_over_defaults(self) -> None:
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            for name, value in own.items():
                if name != "params":
                    group.setdefault(name, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take in more parameters."""
        super().add_param_group(param_group)
        if hasattr(self, "optim"):
            self._owners = self._shared_out() | self._owners
            group = self.param_groups[-1]
            self.optim.add_param_group({**group, "params": self._own(group)})
            self._take_over_defaults()

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's share, and give all the new values."""
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})
        loss = self.optim.step(closure=closure, **kwargs)
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    owner = self._owners[id(parameter)]
                    self.process_group.broadcast([parameter.detach()], owner)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the whole state on one process, for its `state_dict`."""
        here = self.process_group.rank() == to
        found: list[Any] | None = [None] * self.process_group.size() if here else None
        gather_object(self._named_state(), found, group=self.process_group, group_dst=to)
        self._gathered = found or []

    def _named_state(self) -> dict[int, Any]:
        """The state of this process's share, by the parameters' numbers."""
        numbers = self._numbers()
        return {numbers[id(p)]: dict(values) for p, values in self.optim.state.items()}

    def _numbers(self) -> dict[int, int]:
        parameters = [p for group in self.param_groups for p in group["params"]]
        return {id(parameter): number for number, parameter in enumerate(parameters)}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, on the process that consolidate_state_dict has gathered it on."""
        check(
            self._gathered or self.process_group.size() == 1,
            RuntimeError,
            "Optimizer state has not been consolidated on this rank. Please call "
            "`consolidate_state_dict(to=<rank>)` on all ranks beforehand if you meant to save the "
            "global state.",
        )
        parts = self._gathered or [self._named_state()]
        numbers = self._numbers()
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {number: values for part in parts for number, values in part.items()}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a whole state; each process keeps its share."""
        numbers, state = self._numbers(), state_dict["state"]
        shares = []
        for group, given in zip(self.param_groups, state_dict["param_groups"], strict=True):
            values = {name: value for name, value in given.items() if name != "params"}
            group.update(values)
            shares.append({**values, "params": [numbers[id(p)] for p in self._own(group)]})
        order = [number for share in shares for number in share["params"]]
        place = {number: position for position, number in enumerate(order)}
        self.optim.load_state_dict(
            {
                "state": {place[n]: state[n] for n in order if n in state},
                "param_groups": [
                    {**share, "params": [place[n] for n in share["params"]]} for share in shares
                ],
            }
        )
