"""The process groups of this process: making them, asking about them, ending them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ember.backends.base import has_backend
from ember.device import device as Device
from ember.distributed.process_group import DEFAULT_TIMEOUT, ProcessGroup
from ember.distributed.rendezvous import rendezvous
from ember.distributed.stores import PrefixStore, Store
from ember.distributed.transport import Peers
from ember.errors import check

default_pg_timeout = default_pg_nccl_timeout = DEFAULT_TIMEOUT


class Backend(str):
    """The name of a backend, in lower case.

    >>> import ember as torch
    >>> torch.distributed.Backend("GLOO") == torch.distributed.Backend.GLOO
    True
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        check(
            isinstance(name, str),
            ValueError,
            f"Backend constructor parameter must be a string, got {name}",
        )
        return name.lower()


class _World:
    """What there is: the default group, all groups, and the way to the other processes."""

    default: ProcessGroup | None = None
    peers: Peers | None = None
    store: Store | None = None
    backend_config = ""
    device: Any = None

    def __init__(self) -> None:
        self.groups: list[ProcessGroup] = []
        self.made: dict[tuple[int, ...], int] = {}  # how many groups of the same ranks
        self.inits = 0


_world = _World()


class _GroupNames(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before init_process_group."""
        return _world.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        _world.default = value


class group(metaclass=_GroupNames):
    """`group.WORLD` is the group of all processes."""


class GroupMember(metaclass=_GroupNames):
    """`GroupMember.NON_GROUP_MEMBER` is what processes outside a new group get."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """True: processes can always form groups."""
    return True


def is_initialized() -> bool:
    """Whether init_process_group has been called."""
    return _world.default is not None


def is_gloo_available() -> bool:
    """True."""
    return True


def is_nccl_available() -> bool:
    """Whether there are GPUs, simulated ones too, for a group with backend="nccl"."""
    return has_backend("cuda")


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether groups can be made with a backend."""
    return {"gloo": True, "nccl": is_nccl_available()}.get(backend.lower(), False)


def is_torchelastic_launched() -> bool:
    """Whether `torch.distributed.run` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors of a device: gloo on the CPU, nccl on GPUs."""
    kind = Device(device).type if not isinstance(device, Device) else device.type
    found = Backend.default_device_backend_map.get(kind)
    check(found, ValueError, f"Default backend not registered for device : {kind}")
    return str(found)


def _checked_backend(backend: str | None) -> str:
    """The one backend that a name, or a list like "cpu:gloo,cuda:nccl", comes to."""
    if backend is None:
        return "gloo"
    names = {part.rpartition(":")[2].strip() for part in backend.lower().split(",")}
    check("mpi" not in names, RuntimeError, "Distributed package doesn't have MPI built in")
    for name in names:
        check(
            name in ("gloo", "nccl"),
            ValueError,
            f"Unknown backend {backend!r}: this package has 'gloo', for tensors on the CPU and on "
            "GPUs, and 'nccl', for tensors on GPUs",
        )
    check(
        names != {"nccl"} or is_nccl_available(),
        ValueError,
        "ProcessGroupNCCL is only supported with GPUs, no GPUs found! Use backend='gloo', or "
        "simulate GPUs: `ember run --gpus 2 script.py`",
    )
    return "gloo" if "gloo" in names else "nccl"


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
    """Form the group of all processes of a run; returns when all are there.

    They find each other by `init_method`: env:// (the default; RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT in the environment), tcp://host:port, file:///path, or by a `store`.

    >>> import ember as torch
    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> torch.distributed.get_world_size()
    1
    >>> torch.distributed.destroy_process_group()
    """
    check(
        _world.default is None,
        ValueError,
        "trying to initialize the default process group twice!",
    )
    check(
        timeout is None or isinstance(timeout, timedelta),
        TypeError,
        f"Expected timeout argument to be of type datetime.timedelta, got {timeout}",
    )
    check(
        store is None or init_method is None,
        AssertionError,
        "Cannot specify both init_method and store.",
    )
    name = _checked_backend(backend)
    limit = timeout or DEFAULT_TIMEOUT
    if store is None:
        found = rendezvous(init_method or "env://", rank, world_size, timeout=limit)
        store, rank, world_size = next(iter(found))
        store.set_timeout(limit)
    else:
        check(world_size > 0, AssertionError, "world_size must be positive if using store")
        check(rank >= 0, AssertionError, "rank must be non-negative if using store")
    check(
        0 <= rank < world_size,
        ValueError,
        f"rank {rank} is not in a world of {world_size} processes, which are numbered from 0",
    )
    _world.peers = Peers(PrefixStore(f"default_pg/{_world.inits}", store), rank, world_size, limit)
    _world.inits += 1
    _world.store, _world.made = store, {}
    _world.backend_config = backend or "cpu:gloo,cuda:nccl"
    _world.default = _made(list(range(world_size)), name, limit, group_name, "default_pg")
    if device_id is not None:
        _world.default.bound_device_id = Device(device_id)


def _made(
    ranks: list[int], backend: str, timeout: timedelta, name: str = "", description: str = ""
) -> ProcessGroup:
    """A group. Its number follows from its ranks and from how many of the same ranks there were, so
    that its members agree on it whatever other processes make.
    """
    assert _world.peers is not None
    key = tuple(ranks)
    count = _world.made[key] = _world.made.get(key, -1) + 1
    digest = hashlib.blake2b(f"{ranks} {count}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    made = ProcessGroup(
        _world.peers,
        number,
        ranks,
        backend,
        timeout,
        name or str(sum(_world.made.values()) + len(_world.made) - 1),
        description or "undefined",
    )
    if _world.peers.rank in ranks:
        _world.groups.append(made)
    return made


def destroy_process_group(group: Any = None) -> None:
    """End a group; without one (or with WORLD) all groups, and the connections."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = group or _world.default
    check(found is not None, AssertionError, "Process group cannot be None")
    check(found in _world.groups, ValueError, "Invalid process group specified")
    if found is not _world.default:
        found.shutdown()
        _world.groups.remove(found)
        return
    for each in _world.groups:
        each.shutdown()
    if _world.peers is not None:
        _world.peers.close()
    _world.groups.clear()
    _world.default = _world.peers = _world.store = None


def _get_default_group() -> ProcessGroup:
    check(
        _world.default is not None,
        ValueError,
        "Default process group has not been initialized, please make sure to call "
        "init_process_group.",
    )
    assert _world.default is not None
    return _world.default


def _get_default_store() -> Store:
    _get_default_group()
    assert _world.store is not None
    return _world.store


def resolved(group: Any) -> ProcessGroup:
    """The group that an argument names: None is the group of all processes."""
    if group is None:
        return _get_default_group()
    check(
        isinstance(group, ProcessGroup),
        ValueError,
        "Invalid process group specified: this process is not a member of it, or it is no process "
        "group",
    )
    check(
        group in _world.groups,
        ValueError,
        "Invalid process group specified or Process group has been destroyed",
    )
    return group  # type: ignore[no-any-return]


def _rank_not_in_group(group: Any) -> bool:
    return group is GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """This process's rank in a group; -1 outside it."""
    return -1 if _rank_not_in_group(group) else resolved(group).rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group; -1 outside it."""
    return -1 if _rank_not_in_group(group) else resolved(group).size()


def get_backend(group: Any = None) -> str:
    """The name of a group's backend."""
    return resolved(group).name()


def get_backend_config(group: Any = None) -> str:
    """The backend for each kind of device."""
    name = get_backend(group)
    config = _world.backend_config
    return config if ":" in config else f"cpu:{name},cuda:{name}"


def get_pg_count() -> int:
    """The number of groups that this process is in."""
    return len(_world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The process's number on its machine, which the launcher tells in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    check(
        fallback_rank is not None,
        RuntimeError,
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context "
        "and want the code to run locally instead.",
    )
    return int(fallback_rank)  # type: ignore[arg-type]


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks, among all processes, of a group's members."""
    return list(resolved(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all processes of a group's member."""
    ranks = resolved(group).ranks
    check(
        0 <= group_rank < len(ranks),
        ValueError,
        f"Group rank {group_rank} is not part of group {group}",
    )
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a process."""
    ranks = resolved(group).ranks
    check(
        global_rank in ranks,
        ValueError,
        f"Global rank {global_rank} is not part of group {group}",
    )
    return ranks.index(global_rank)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes. All processes call it, also those that are not in the group; they
    get GroupMember.NON_GROUP_MEMBER.
    """
    world = _get_default_group()
    wanted = list(range(world.size())) if ranks is None else list(ranks)
    wanted = sorted(wanted) if sort_ranks else wanted
    check(
        len(wanted) <= world.size(),
        ValueError,
        "the new group's world size should be less or equal to the world size set by "
        "init_process_group",
    )
    check(
        all(0 <= rank < world.size() for rank in wanted),
        ValueError,
        "The new group's rank should be within the world_size set by init_process_group",
    )
    check(len(set(wanted)) == len(wanted), ValueError, f"a rank is named twice in {wanted}")
    name = world.name() if backend is None else _checked_backend(backend)
    made = _made(wanted, name, timeout or world.timeout, "", group_desc or "")
    return made if world.rank() in wanted else GroupMember.NON_GROUP_MEMBER


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group for each list of ranks: (the one of this process, all)."""
    check(
        ranks_per_subgroup_list,
        ValueError,
        "The arg 'ranks_per_subgroup_list' cannot be empty",
    )
    seen: set[int] = set()
    own, made = None, []
    for ranks in ranks_per_subgroup_list:
        check(
            not seen & set(ranks),
            ValueError,
            f"Rank {sorted(seen & set(ranks))} has appeared in two subgroups",
        )
        seen |= set(ranks)
    for ranks in ranks_per_subgroup_list:
        made.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        if get_rank() in ranks:
            own = made[-1]
    return own, made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbours each (by default of one machine's processes)."""
    size = group_size or int(os.environ.get("LOCAL_WORLD_SIZE", get_world_size()))
    total = get_world_size()
    check(
        size <= total,
        ValueError,
        f"The arg 'group_size' ({size}) must not exceed the world size ({total})",
    )
    check(
        total % size == 0,
        ValueError,
        f"The world size ({total}) must be divisible by 'group_size={size}'",
    )
    lists = [list(range(start, start + size)) for start in range(0, total, size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """The part of a group that this process is in; None if it is in none.

    `split_ranks` has the ranks, in the parent, of each part.
    """
    parent = resolved(parent_pg)
    check(split_ranks, ValueError, "split_ranks cannot be None or empty")
    own = [ranks for ranks in split_ranks or () if parent.rank() in ranks]
    check(len(own) <= 1, ValueError, f"rank {parent.rank()} is in several parts: {own}")
    if not own:
        return None
    ranks = [parent.ranks[rank] for rank in own[0]]
    return new_group(ranks, timeout or parent.timeout, backend or parent.name())


__all__ = [name for name in dict(globals()) if not name.startswith("__")]
