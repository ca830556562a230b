"""How a tensor lies on the processes of a mesh: descriptions, which libraries compare."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along one dim of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut up (along a dim of its own)."""
        return False

    def is_replicate(self) -> bool:
        """Whether all processes have the whole."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the whole is the reduction of what the processes have."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Cut up along `dim`, a part for each process."""

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut up along `dim`."""
        return dim is None or self.dim == dim

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The length and the beginning of chunk `rank`, chunks being as of `torch.chunk`.

        >>> Shard.local_shard_size_and_offset(10, 4, 3)
        (1, 9)
        """
        full = -(-curr_local_size // num_chunks)
        first = min(full * rank, curr_local_size)
        return min(full, curr_local_size - first), first

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Placement):
    dim: int
    split_factor: int = field(default=1, kw_only=True)

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut up along `dim`: not as Shard is."""
        return False

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """All processes have the whole."""

    def is_replicate(self) -> bool:
        """True."""
        return True

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is the reduction of what the processes have."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether it is one (of this reduction)."""
        return reduce_op is None or self.reduce_op == reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
