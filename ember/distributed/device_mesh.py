"""`DeviceMesh`: the processes of a run as a grid, with a group along each dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ember.core.tensor import Tensor
from ember.distributed.world import (
    _get_default_group,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)
from ember.dtypes import int32
from ember.errors import check
from ember.ops import tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of ranks; `mesh["tp"]` is the line through this process along a named dim.

    All processes make the same meshes in the same order.

    >>> import ember as torch, ember.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))["data"].size()
    1
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _groups: list[Any] | None = None,
        _root: DeviceMesh | None = None,
    ):
        self.device_type = device_type
        ranks = mesh.tolist() if isinstance(mesh, Tensor) else mesh
        self._ranks = np.array(ranks, np.int32)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        check(
            len(np.unique(self._ranks)) == self._ranks.size,
            RuntimeError,
            f"a DeviceMesh names each rank once, got {self._ranks.tolist()}",
        )
        if not is_initialized():
            init_process_group()
        self._root, self._flat = _root, {}
        self._groups = self._made_groups() if _groups is None else _groups

    def _made_groups(self) -> list[Any]:
        """A group for each line along each dim; those of this process are kept."""
        world = get_world_size()
        check(
            self._ranks.size <= world,
            RuntimeError,
            f"Mesh should not be bigger than default world size {world}, but found "
            f"{self._ranks.size} ranks!",
        )
        kept: list[Any] = []
        for dim in range(self._ranks.ndim):
            lines = np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim])
            own = None
            if len(lines) == 1 and lines[0].tolist() == list(range(world)):
                own = _get_default_group()
                lines = lines[:0]
            for line in lines.tolist():
                made = new_group(line)
                own = made if get_rank() in line else own
            kept.append(own)
        return kept

    @property
    def mesh(self) -> Tensor:
        """The ranks, as a tensor."""
        return tensor(self._ranks.tolist(), dtype=int32)  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return tuple(self._ranks.shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or the size of a dim."""
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim])

    def _dim(self, mesh_dim: int | str | None, found: str) -> int:
        check(
            mesh_dim is not None or self.ndim == 1,
            RuntimeError,
            f"{found} Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
        )
        if isinstance(mesh_dim, str):
            names = self.mesh_dim_names or ()
            check(
                mesh_dim in names,
                KeyError,
                f"Invalid mesh_dim_names {(mesh_dim,)} specified. Valid mesh_dim_names are "
                f"{list(names)}.",
            )
            return names.index(mesh_dim)
        return mesh_dim or 0

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group along a dim that this process is in."""
        if isinstance(mesh_dim, str) and mesh_dim in self._flat:
            return self._flat[mesh_dim].get_group()
        found = f"Found the DeviceMesh have {self.ndim} dimensions."
        return self._groups[self._dim(mesh_dim, found)]

    def get_all_groups(self) -> list[Any]:
        """The groups along all dims."""
        return list(self._groups)

    def get_rank(self) -> int:
        """This process's rank in the run."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place in the grid; None outside it."""
        places = np.argwhere(self._ranks == get_rank())
        return tuple(int(i) for i in places[0]) if len(places) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dim."""
        found = f"Found the DeviceMesh have {self.ndim} dimensions."
        place = self.get_coordinate()
        dim = self._dim(mesh_dim, found)
        return -1 if place is None else place[dim]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        known = self.mesh_dim_names
        check(known, RuntimeError, "Cannot slice a DeviceMesh without mesh_dim_names!")
        assert known is not None
        if wanted == known:
            return self
        if len(wanted) == 1 and wanted[0] in self._flat:
            return self._flat[wanted[0]]
        check(
            all(name in known for name in wanted),
            KeyError,
            f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {list(known)}.",
        )
        dims = [known.index(name) for name in wanted]
        place = self.get_coordinate() or (0,) * self.ndim
        index = tuple(slice(None) if dim in dims else place[dim] for dim in range(self.ndim))
        part = self._ranks[index].transpose(np.argsort(np.argsort(dims)))
        groups = [self._groups[dim] for dim in dims]
        return DeviceMesh(
            self.device_type, part, mesh_dim_names=wanted, _groups=groups, _root=self._root or self
        )

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All processes of the mesh as one dim."""
        root = self._root or self
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("mesh",))
        if name not in root._flat:
            made = None
            for ranks in _lines_like(root, self):
                found = DeviceMesh(
                    self.device_type, ranks, mesh_dim_names=(name,), _groups=[None], _root=root
                )
                found._groups = [new_group(ranks)]
                if get_rank() in ranks:
                    made = found
            assert made is not None
            root._flat[name] = made
        return root._flat[name]

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """The mesh whose groups, one for each dim, are there already."""
        groups = list(group) if isinstance(group, list | tuple) else [group]
        if mesh is None:
            check(len(groups) == 1, ValueError, "Must pass mesh if passing multiple ProcessGroups")
            mesh = get_process_group_ranks(groups[0])
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return False
        same = self.device_type == other.device_type
        same = same and self.mesh_dim_names == other.mesh_dim_names
        return same and np.array_equal(self._ranks, other._ranks)

    def __hash__(self) -> int:
        ranks = self._ranks
        return hash((ranks.tobytes(), ranks.shape, self.device_type, self.mesh_dim_names))

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __repr__(self) -> str:
        sizes, names = self.shape, self.mesh_dim_names
        shown = [f"{n}={s}" for n, s in zip(names, sizes, strict=True)] if names else list(sizes)
        dims = ", ".join(map(str, shown)) + ("," if len(shown) == 1 and not names else "")
        steps = tuple(int(s) // 4 for s in np.empty(sizes, np.int32).strides)
        return f"DeviceMesh(({dims}), {self.device_type!r}, stride={steps})"


def _lines_like(root: DeviceMesh, part: DeviceMesh) -> list[list[int]]:
    """The ranks of all parts of a mesh that are cut like `part`, which is one of them."""
    names = root.mesh_dim_names or ()
    kept = [names.index(name) for name in part.mesh_dim_names or () if name in names]
    if part is root or len(kept) != part.ndim:
        return [root._ranks.reshape(-1).tolist()]
    order = [dim for dim in range(root.ndim) if dim not in kept] + kept
    lines = root._ranks.transpose(order).reshape(-1, part._ranks.size)
    return [[int(rank) for rank in line] for line in lines]


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The processes of the run as a grid of a shape, row by row."""
    check(
        mesh_dim_names is None or len(set(mesh_dim_names)) == len(mesh_dim_names),
        RuntimeError,
        f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {mesh_dim_names}",
    )
    check(
        mesh_dim_names is None or len(mesh_dim_names) == len(mesh_shape),
        RuntimeError,
        "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
        f"{len(mesh_dim_names or ())} and len(mesh_shape):{len(mesh_shape)}.",
    )
    check(
        device_type.isalpha(),
        RuntimeError,
        f"Device type with index is not supported but got {device_type}. ",
    )
    count = int(np.prod(tuple(mesh_shape)))
    ranks = np.arange(count, dtype=np.int32).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
