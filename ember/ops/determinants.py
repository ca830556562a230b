"""Determinants and their logarithms: d log det A = tr(A⁻¹·dA)."""

from __future__ import annotations

from typing import Any

from ember.backends.library import Library
from ember.core import modes
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.kernel.array import Spec
from ember.ops import return_types
from ember.ops.factorizations import svd_op
from ember.ops.matrices import check_precise, check_square
from ember.ops.solving import solve_op


def _batch(input: Tensor) -> Spec:
    return input.spec.with_shape(tuple(input.shape[:-2]))


@library_op(Library.det, name="linalg_det")
def det_op(input: Tensor) -> Spec:
    """The determinant."""
    return _batch(input)


def _scaled_identity(factor: Any, size: int) -> Any:
    return factor.unsqueeze(-1).expand((*factor.shape, size)).diag_embed()


def _det_gradient(g: Any, input: Any, result: Any) -> Any:
    if modes.state.grad or (not result.is_meta and (result != 0).all().item()):
        scaled = _scaled_identity(g * result.conj(), input.shape[-1])
        return (solve_op(input.mH, scaled, True)[0],)
    # The cofactors, which singular matrices have too: det(U)·det(V^H) · U·diag(∏_{j≠i} s_j)·V^H
    u, s, vh = svd_op(input, False)
    size = s.shape[-1]
    ones = s.new_ones(size).diag_embed()
    others = (s.unsqueeze(-2) * (1 - ones) + ones).prod(-1)
    phase = (det_op(u) * det_op(vh)).conj() * g
    return ((u * (others * phase.unsqueeze(-1)).unsqueeze(-2)) @ vh,)


det_op.grad = _det_gradient


@library_op(Library.slogdet, name="linalg_slogdet")
def slogdet_op(input: Tensor) -> Any:
    """The sign of the determinant, and the log of its magnitude."""
    batch = _batch(input)
    return batch, batch.with_dtype(input.dtype.to_real())


def _slogdet_gradient(g: Any, input: Any, result: Any) -> Any:
    by_sign, by_logarithm = g
    factor = by_logarithm
    if input.is_complex() and by_sign is not None:
        turn = 1j * (by_sign.conj() * result[0]).imag
        factor = -turn if factor is None else factor - turn
    if factor is None:
        return (input.new_zeros(input.shape),)
    scaled = _scaled_identity(factor.to(input.dtype), input.shape[-1])
    return (solve_op(input.mH, scaled, True)[0],)


slogdet_op.grad = _slogdet_gradient


@composite(LINALG | OUT, name="det")
def linalg_det(A: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> import ember as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    check_precise("linalg.det", A)
    check_square("linalg.det", A)
    return det_op(A)


@composite(FUNCTION | METHOD)
def det(input: Tensor) -> Tensor:
    """The determinant of square matrices."""
    return linalg_det(input)


@composite(LINALG | OUT, name="slogdet")
def linalg_slogdet(A: Tensor) -> Any:
    """(sign, logabsdet): the sign (or phase) of the determinant and the log of its magnitude."""
    check_precise("linalg.slogdet", A)
    check_square("linalg.slogdet", A)
    return return_types.linalg_slogdet(*slogdet_op(A))


@composite(FUNCTION | METHOD | OUT)
def slogdet(input: Tensor) -> Any:
    """`torch.linalg.slogdet`."""
    return return_types.slogdet(*linalg_slogdet(input))


@composite(FUNCTION | METHOD)
def logdet(input: Tensor) -> Tensor:
    """log of the determinant; NaN where it is negative, −inf where it is 0."""
    check_precise("logdet", input)
    check_square("logdet", input)
    sign, logarithm = slogdet_op(input)
    return (sign.log() + logarithm) if input.is_complex() else _real_logdet(sign, logarithm)


def _real_logdet(sign: Tensor, logarithm: Tensor) -> Tensor:
    return logarithm.masked_fill(sign == -1, float("nan"))
