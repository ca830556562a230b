"""Ready-made parametrizations: orthogonal, weight and spectral normalization."""

import ember.ops as ops
from ember.core.modes import no_grad
from ember.core.registry import NAMESPACES
from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.module import Module
from ember.nn.utils.norm_of_slices import norm_except_dim
from ember.nn.utils.parametrize import register_parametrization
from ember.nn.utils.spectral_norm import TRANSPOSED, as_matrix

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _make_orthogonal(matrix):
    """Q of the QR decomposition, with the signs that make it unique."""
    q, r = NAMESPACES["linalg"]["qr"](matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(matrix):
    rows, cols = matrix.shape[-2:]
    identity = ops.eye(cols, dtype=matrix.dtype, device=matrix.device)
    tolerance = 10.0 * rows * _epsilon(matrix)
    return bool(((matrix.mH @ matrix) - identity).abs().max() <= tolerance)


def _epsilon(tensor):
    return 2.0**-52 if tensor.dtype.itemsize in (8, 16) else 2.0**-23


def _reflections(vectors):
    """The product of the Householder reflections whose vectors are the unit-lower columns."""
    rows, cols = vectors.shape[-2:]
    below = vectors.tril(-1)
    scale = 2.0 / (1.0 + (below * below).sum(-2))
    unit = ops.eye(rows, cols, dtype=vectors.dtype, device=vectors.device)
    product, columns = unit, below + unit
    for place in reversed(range(cols)):
        column = columns[..., place : place + 1]
        step = scale[..., place : place + 1].unsqueeze(-1) * column
        product = product - step @ (column.mT @ product)
    return product


def _reflectors(matrix):
    """Columns whose `_reflections`, times the signs on their diagonal, give an orthogonal `matrix`.

    The Householder QR decomposition, a column at a time; R is then the diagonal of the signs.
    """
    rest, found = matrix, []
    for place in range(matrix.size(-1)):
        column = rest[..., place:, place]
        head = column[..., :1]
        norm = (column * column).sum(-1, keepdim=True).sqrt()
        target = ops.where(head < 0, norm, -norm)  # the other sign: no cancellation below
        below = column[..., 1:] / (head - target)
        above = ops.zeros_like(rest[..., :place, place])
        vector = ops.cat([above, ops.ones_like(head), below], dim=-1).unsqueeze(-1)
        scale = ((target - head) / target).unsqueeze(-1)
        rest = rest - scale * vector @ (vector.mT @ rest)
        found.append(ops.cat([above, target.sign(), below], dim=-1))
    return ops.stack(found, dim=-1)


class _Orthogonal(Module):
    """An orthogonal matrix of the original's shape, by one of three maps.

    matrix_exp: exp(A), cayley: (I + A/2)(I - A/2)⁻¹, both of A = L - Lᵀ with L the lower triangle;
    householder: the product of reflections. With `use_trivialization` the map starts at `base`.
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        check(
            not (weight.is_complex() and orthogonal_map == "householder"),
            ValueError,
            "The householder parametrization does not support complex tensors.",
        )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        rows, cols = X.shape[-2:]
        wide = rows < cols
        if wide:
            X, rows, cols = X.mT, cols, rows
        if self.orthogonal_map == "householder":
            # the diagonal's signs make the map reach every orthogonal matrix
            q = _reflections(X) * X.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)
        else:
            q = self._from_skew(X.tril(), rows, cols)
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if wide else q

    def _from_skew(self, lower, rows, cols):
        if rows != cols:
            pad = ops.zeros(
                (*lower.shape[:-1], rows - cols), dtype=lower.dtype, device=lower.device
            )
            lower = ops.cat([lower, pad], dim=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            q = NAMESPACES["linalg"]["matrix_exp"](skew)
        else:
            identity = ops.eye(rows, dtype=skew.dtype, device=skew.device)
            q = NAMESPACES["linalg"]["solve"](identity - skew * 0.5, identity + skew * 0.5)
        return q[..., :cols]

    def right_inverse(self, Q):
        check(
            Q.shape == self.shape,
            ValueError,
            f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
            f"{Q.shape}.",
        )
        rows, cols = Q.shape[-2:]
        wide = rows < cols
        if wide:
            Q, rows, cols = Q.mT, cols, rows
        if "base" not in self._buffers:
            check(
                self.orthogonal_map == "householder",
                NotImplementedError,
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False.",
            )
            start = _reflectors(Q if _is_orthogonal(Q) else _make_orthogonal(Q))
            return start.mT if wide else start
        if rows == cols or self.orthogonal_map == "householder":
            base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        if rows != cols:
            more = ops.randn((*Q.shape[:-2], rows, rows - cols), dtype=Q.dtype, device=Q.device)
            base = _make_orthogonal(ops.cat([Q, more], dim=-1))
        self.base = base
        # -I is mapped to I: its strict lower triangle is 0, and its signs undo the reflections'
        start = ops.eye(*self.shape[-2:], dtype=Q.dtype, device=Q.device).neg()
        return start.expand(self.shape).clone()


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Make a weight orthogonal: Wᵀ W = I, or W Wᵀ = I when it is wide (Lezcano-Casado, 2019).

    `orthogonal_map`: "matrix_exp" (the default for square matrices), "cayley" or "householder".
    ValueError for a tensor that is no matrix or an unknown map.

    >>> import ember as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    check(
        weight is not None,
        ValueError,
        f"Module '{module}' has no parameter or buffer with name '{name}'",
    )
    check(
        weight.dim() >= 2,
        ValueError,
        lambda: (
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        ),
    )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    check(
        orthogonal_map in _MAPS,
        ValueError,
        'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
        f"{orthogonal_map}",
    )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """g · v / ‖v‖, of the originals g and v."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Split a weight into magnitude and direction, trained apart (Salimans and Kingma, 2016).

    The magnitude keeps `dim`; with dim=None there is one for the whole weight. State dicts of the
    older `torch.nn.utils.weight_norm` can be loaded.

    >>> import ember as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.size()
    torch.Size([40, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict, prefix, *_):
        for old, new in (("_g", "original0"), ("_v", "original1")):
            key = f"{prefix}{name}{old}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


class _SpectralNorm(Module):
    """W over its largest singular value uᵀ W v, found by power iteration while training."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        dims = weight.dim()
        check(
            -dims <= dim < dims,
            IndexError,
            f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got "
            f"{dim})",
        )
        check(
            n_power_iterations > 0,
            ValueError,
            "Expected n_power_iterations to be positive, but got "
            f"n_power_iterations={n_power_iterations}",
        )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim).detach()
            like = {"dtype": weight.dtype, "device": weight.device}
            u = ops.empty(matrix.size(0), **like).normal_(0, 1)
            v = ops.empty(matrix.size(1), **like).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix, iterations):
        with no_grad():
            for _ in range(iterations):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies: the graph keeps them, and the next iteration writes the buffers
        u, v = self._u.clone(), self._v.clone()
        return weight / (u @ (matrix @ v))

    def right_inverse(self, value):
        # as close as one can come: the largest singular value is 1 again at the next reading
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Keep the largest singular value of a weight at 1 (Miyato et al., 2018).

    `dim` is the dim of the outputs: 1 for transposed convolutions, else 0.

    >>> import ember as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
    >>> layer.weight.shape
    torch.Size([40, 20])
    """
    weight = getattr(module, name, None)
    check(
        weight is not None,
        ValueError,
        f"Module '{module}' has no parameter or buffer with name '{name}'",
    )
    if dim is None:
        dim = 1 if isinstance(module, TRANSPOSED) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)
