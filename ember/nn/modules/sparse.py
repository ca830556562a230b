"""Embeddings: rows of a table looked up by index."""

import ember.ops as ops
from ember.core.modes import no_grad
from ember.errors import check
from ember.nn import functional as F
from ember.nn import init
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What the embeddings share: a table of rows, one of which may stand for padding."""

    def _set_up(self, num_embeddings, embedding_dim, padding_idx, weight, freeze, factory):
        if padding_idx is not None:
            check(
                -num_embeddings <= padding_idx < num_embeddings,
                AssertionError,
                "Padding_idx must be within num_embeddings",
            )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if weight is None:
            empty = ops.empty((num_embeddings, embedding_dim), **factory)
            self.weight = Parameter(empty, requires_grad=not freeze)
            self.reset_parameters()
        else:
            check(
                tuple(weight.shape) == (num_embeddings, embedding_dim),
                AssertionError,
                "Shape of weight does not match num_embeddings and embedding_dim",
            )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self):
        """Draw the table anew from N(0, 1), the padding row 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _described(self, *names):
        """The sizes, and of the other choices those that are not the usual ones."""
        usual = {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": 2,
            "scale_grad_by_freq": False,
            "sparse": False,
        }
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name in names:
            value = getattr(self, name)
            if name not in usual or value != usual[name]:
                parts.append(f"{name}={value!r}")
        return ", ".join(parts)


class Embedding(_Table):
    """Row input[...] of a (num_embeddings, embedding_dim) table: (*) to (*, embedding_dim).

    The row padding_idx starts at 0 and gets no gradient; rows are scaled to at most `max_norm`.

    >>> import ember as torch
    >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        factory = {"device": device, "dtype": dtype}
        self._set_up(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, factory)

    def forward(self, input):
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self):
        return self._described(
            "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """An Embedding over a given 2-d table, not trained unless freeze=False.

        >>> import ember as torch
        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.nn.Embedding.from_pretrained(table)(torch.tensor([1]))
        tensor([[3., 4.]])
        """
        check(
            embeddings.dim() == 2,
            AssertionError,
            "Embeddings parameter is expected to be 2-dimensional",
        )
        rows, cols = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=cols,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """The sum, mean or max of the rows of each bag of indices, without building the rows.

    input (B, N) is B bags of N; a 1-d input is cut at `offsets`. Result: (B, embedding_dim).

    >>> import ember as torch
    >>> bag = torch.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3])).shape
    torch.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        factory = {"device": device, "dtype": dtype}
        self._set_up(num_embeddings, embedding_dim, padding_idx, _weight, False, factory)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        return self._described("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """An EmbeddingBag over a given 2-d table, not trained unless freeze=False."""
        check(
            embeddings.dim() == 2,
            AssertionError,
            "Embeddings parameter is expected to be 2-dimensional",
        )
        rows, cols = embeddings.shape
        bag = cls(
            num_embeddings=rows,
            embedding_dim=cols,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
