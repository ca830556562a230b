"""The norms of a weight's slices, which weight normalization divides by."""

from ember.core.registry import NAMESPACES


def norm_except_dim(weight, dim):
    """The 2-norm over all dims but `dim`, kept as dims of size 1; over all dims for None."""
    vector_norm = NAMESPACES["linalg"]["vector_norm"]
    if dim is None:
        return vector_norm(weight, 2)
    others = [d for d in range(weight.dim()) if d != dim % weight.dim()]
    if not others:
        return weight.abs()
    return vector_norm(weight, 2, dim=others, keepdim=True)
