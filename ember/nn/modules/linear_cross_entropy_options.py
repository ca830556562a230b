"""The choices that PyTorch offers for splitting a linear layer with cross-entropy into chunks."""

from ember.dtypes import bfloat16, float16, float32, float64
from ember.errors import check

__all__ = ["LinearCrossEntropyOptions"]

_ACCUMULATORS = (None, float16, bfloat16, float32, float64)


def _is_method(text):
    """Whether `text` is "auto", "aspect_ratio" or "aspect_ratio:" and a whole number above 0."""
    name, colon, ratio = text.partition(":")
    if not colon:
        return name in ("auto", "aspect_ratio")
    return name == "aspect_ratio" and ratio.isdigit() and int(ratio) > 0


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
        chunk = batch_chunk_size
        check(
            chunk is None or (isinstance(chunk, int) and chunk > 0),
            ValueError,
            f"batch_chunk_size must be positive int or None, got {batch_chunk_size!r}",
        )
        check(
            chunking_method is None or _is_method(chunking_method),
            ValueError,
            f"invalid chunking_method: {chunking_method!r}",
        )
        check(
            acc_policy in ("accurate", "balanced", "compact", "auto"),
            ValueError,
            f"invalid acc_policy: {acc_policy!r}",
        )
        check(
            acc_dtype in _ACCUMULATORS,
            ValueError,
            f"acc_dtype must be one of {_ACCUMULATORS}, got {acc_dtype}. Pass acc_dtype=None to "
            "let the op pick automatically.",
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
