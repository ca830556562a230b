"""`BlockMask`: which blocks of an attention matrix have anything in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.dtypes import bool_, int32, int64
from ember.errors import check

__all__ = ["BlockMask", "noop_mask"]

DEFAULT_BLOCK_SIZE = 128
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
TENSORS = tuple(
    f"{full}{side}_{what}"
    for side in ("kv", "q")
    for full in ("", "full_")
    for what in ("num_blocks", "indices")
)
SLICED = """Cannot use mask_mod from a sliced BlockMask: its positions are no longer those of the \
whole. Set sliced.mask_mod to a function made of the mask_mod of the whole."""


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask_mod that lets everything through.

    >>> import ember as torch
    >>> from ember.nn.attention.flex_attention import noop_mask
    >>> i = torch.tensor(0)
    >>> noop_mask(i, i, i, i)
    tensor(True)
    """
    return batch.new_ones((), dtype=bool_)  # type: ignore[no-any-return]


def _sliced_mask(*positions: Any) -> Tensor:
    raise RuntimeError(SLICED)


def ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row have something in them, and their columns, then the others."""
    dense = dense.to(int32)
    columns = ops.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(int32), columns.to(int32).contiguous()


def spread(num_blocks: Tensor, indices: Tensor) -> Tensor:
    """The matrix of blocks, 1 where there is something, that `ordered` told."""
    columns = ops.arange(indices.shape[-1], device=indices.device)
    present = (columns < num_blocks.unsqueeze(-1)).to(int32)
    return ops.zeros_like(present).scatter(-1, indices.to(int64), present)  # type: ignore[no-any-return]


def block_sizes(size: int | tuple[int, int]) -> tuple[int, int]:
    """A block's rows and columns."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


class BlockMask:
    """The blocks of an attention matrix (B, H, queries, keys) that are not wholly masked.

    For each row of blocks, `kv_num_blocks` (B, H, rows) counts the blocks that are in part masked
    and `kv_indices` (B, H, rows, columns) names their columns first; the same with `full_` for
    blocks without masking (None: not told apart), and with `q_` for columns. `mask_mod(b, h, q,
    kv)` says of one place whether it counts.

    >>> import ember as torch
    >>> from ember.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256, device="cpu")
    >>> mask.to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=torch.int32)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
    ):
        check(kv_indices.ndim >= 2, RuntimeError, "BlockMask must have at least 2 dimensions")
        for name, tensor in (("kv", full_kv_num_blocks), ("q", full_q_num_blocks)):
            indices = full_kv_indices if name == "kv" else full_q_indices
            check(
                (tensor is None) == (indices is None),
                AssertionError,
                f"full_{name}_num_blocks and full_{name}_indices must be both provided or omitted",
            )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """The mask whose rows of blocks are given; those of the columns follow."""
        sizes = block_sizes(BLOCK_SIZE)
        if seq_lengths is None:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = (rows * sizes[0], columns * sizes[1])
        by_column: list[Tensor | None] = [None] * 4
        if compute_q_blocks:
            by_column[:2] = ordered(spread(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full = spread(full_kv_num_blocks, full_kv_indices)
                by_column[2:] = ordered(full.transpose(-2, -1))
        by_row = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls(seq_lengths, *by_row, *by_column, sizes, mask_mod or noop_mask)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The lengths, the tensors, the sizes of a block and the mask_mod."""
        tensors = tuple(getattr(self, name) for name in TENSORS)
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of places in the matrix."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def sparsity(self) -> float:
        """The percentage of places that need not be computed (below 0 where blocks jut out)."""
        blocks = int(self.kv_num_blocks.sum().item())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum().item())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """The matrix of blocks, 1 where there is something (int32)."""
        dense = spread(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | spread(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on a device."""
        moved = [None if t is None else t.to(device) for t in map(self.__dict__.get, TENSORS)]
        return type(self)(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and rows of blocks, without its mask_mod."""
        index = index if isinstance(index, tuple) else (index,)
        padded = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        parts = [None if t is None else t[padded] for t in map(self.__dict__.get, TENSORS[:4])]
        return type(self).from_kv_blocks(
            *parts,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        parts: list[Tensor | None] = []
        for num_blocks, indices in (
            (self.kv_num_blocks, self.kv_indices),
            (self.full_kv_num_blocks, self.full_kv_indices),
        ):
            if num_blocks is None or indices is None:
                parts += [None, None]
            else:
                parts += ordered(spread(num_blocks, indices)[..., :rows, :columns])
        return type(self).from_kv_blocks(
            *parts,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks of the first `limit` matrices: full, partly filled, empty."""
        dense = self.to_dense()
        rows, columns = dense.shape[-2:]
        wanted = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        high = max(1, rows // wanted[0]) if wanted[0] > 0 else 1
        wide = max(1, columns // wanted[1]) if wanted[1] > 0 else 1
        lines: list[str] = []
        matrices = dense.reshape(-1, rows, columns).tolist()
        lead = dense.shape[:-2]
        for number, matrix in enumerate(matrices[:limit]):
            place, left = [], number
            for size in reversed(lead):
                place.insert(0, left % size)
                left //= size
            lines.append(str(tuple(place)))
            for r in range(0, rows, high):
                cells = ""
                for c in range(0, columns, wide):
                    cell = [x for row in matrix[r : r + high] for x in row[c : c + wide]]
                    cells += "██" if all(cell) else "░░" if any(cell) else "  "
                lines.append(cells)
        if len(matrices) > limit:
            lines.append("...")
        return "\n".join(lines)

    def __str__(self) -> str:
        about = f"shape={self.shape}, sparsity={self.sparsity():.2f}%"
        return f"BlockMask({about}, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        def shown(name: str) -> str:
            tensor = getattr(self, name)
            return f"    {name}={None if tensor is None else tensor.shape},\n"

        mod = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (
            f"BlockMask(\n{''.join(map(shown, TENSORS))}    BLOCK_SIZE={self.BLOCK_SIZE},\n"
            f"    shape={self.shape},\n    sparsity={self.sparsity():.2f}%,\n    mask_mod={mod}\n)"
        )
