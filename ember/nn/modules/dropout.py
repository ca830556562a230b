"""Dropout: randomly zeroed elements or channels while training."""

from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """What the dropouts share: a probability, and whether to overwrite the input."""

    __constants__ = ["p", "inplace"]

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        check(
            0 <= p <= 1,
            ValueError,
            f"dropout probability has to be between 0 and 1, but got {p}",
        )
        self.p = p
        self.inplace = inplace

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Each element 0 with probability p, the others over 1 - p; the identity in evaluation.

    Hinton et al., 2012.

    >>> import ember as torch
    >>> torch.nn.Dropout(0.2).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L).

    >>> import ember as torch
    >>> torch.nn.Dropout1d(1.0)(torch.ones(1, 2, 2)).sum()
    tensor(0.)
    """

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W).

    >>> import ember as torch
    >>> torch.nn.Dropout2d(1.0)(torch.ones(1, 2, 2, 2)).sum()
    tensor(0.)
    """

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W).

    >>> import ember as torch
    >>> torch.nn.Dropout3d(1.0)(torch.ones(1, 2, 2, 2, 2)).sum()
    tensor(0.)
    """

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for SELU (Klambauer et al., 2017).

    >>> import ember as torch
    >>> torch.nn.AlphaDropout(0.2).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import ember as torch
    >>> torch.nn.FeatureAlphaDropout(0.2).eval()(torch.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
