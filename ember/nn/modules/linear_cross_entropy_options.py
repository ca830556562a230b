"""The choices that PyTorch offers for splitting a linear layer with cross-entropy into chunks."""

from ember.errors import check

__all__ = ["LinearCrossEntropyOptions"]


class LinearCrossEntropyOptions:
    """How LinearCrossEntropyLoss may split its work; the result is the same for every choice.

    Ember computes it whole: the choices are checked and kept, and change nothing.

    >>> import ember as torch
    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=8).batch_chunk_size
    8
    """

    def __init__(
        self,
        allow_retain_graph=False,
        batch_chunk_size=None,
        chunking_method="auto",
        acc_policy="auto",
        acc_dtype=None,
    ):
        check(
            chunking_method in (None, "auto"),
            ValueError,
            f"invalid chunking_method: {chunking_method!r}",
        )
        check(
            acc_policy in ("accurate", "balanced", "compact", "auto"),
            ValueError,
            f"invalid acc_policy: {acc_policy!r}",
        )
        self.allow_retain_graph = allow_retain_graph
        self.batch_chunk_size = batch_chunk_size
        self.chunking_method = chunking_method
        self.acc_policy = acc_policy
        self.acc_dtype = acc_dtype

    def __repr__(self):
        choices = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({choices})"

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self):
        return hash(tuple(vars(self).values()))
