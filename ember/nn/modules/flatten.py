"""Flatten and Unflatten: dims merged and split."""

from ember.errors import check
from ember.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Dims start_dim to end_dim merged into one.

    >>> import ember as torch
    >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dim `dim` split into `unflattened_size`; one of the sizes may be -1.

    >>> import ember as torch
    >>> torch.nn.Unflatten(1, (2, 3))(torch.ones(4, 6)).shape
    torch.Size([4, 2, 3])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim, unflattened_size):
        super().__init__()
        check(
            isinstance(dim, int),
            TypeError,
            f"invalid argument: dim is an int, found type {type(dim).__name__}",
        )
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, sizes):
        check(
            isinstance(sizes, (tuple, list)),
            TypeError,
            f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}",
        )
        for place, size in enumerate(sizes):
            check(
                isinstance(size, int),
                TypeError,
                "unflattened_size must be tuple of ints, but found element of type "
                f"{type(size).__name__} at pos {place}",
            )

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
