"""`swap_tensors`: two tensors change places, so that everything that holds one now holds the
other."""

from __future__ import annotations

import weakref

from ember.core.tensor import Tensor
from ember.errors import check


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: memory, gradient, class and attributes. RuntimeError if there
    are weak references to one of them.

    >>> import ember as torch
    >>> a, b = torch.ones(2), torch.zeros(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0., 0.]), tensor([1., 1.]))
    """
    for tensor, name in ((t1, "t1"), (t2, "t2")):
        check(
            not weakref.getweakrefs(tensor),
            RuntimeError,
            f"Cannot swap {name} because it has weakref associated with it",
        )
        tensor.__dict__.pop("_accumulate", None)  # it adds to the tensor that it was made for
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
