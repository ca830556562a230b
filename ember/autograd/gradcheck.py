"""`gradcheck`: gradients held against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ember import dtypes
from ember.autograd.backward import grad
from ember.core import modes
from ember.core.dispatch import is_differentiable
from ember.core.tensor import Tensor, from_ndarray
from ember.errors import check


class GradcheckError(RuntimeError):
    """A gradient that finite differences contradict."""


def _tensors(values: Any) -> list[Tensor]:
    values = values if isinstance(values, (tuple, list)) else (values,)
    return [v for v in values if isinstance(v, Tensor)]


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    return [t for t in _tensors(func(*inputs)) if is_differentiable(t.dtype)]


def _flat(tensor: Any) -> np.ndarray[Any, Any]:
    return np.array(tensor.detach().cpu().numpy()).reshape(-1)


def _numerical(
    func: Callable[..., Any], inputs: list[Any], which: int, eps: float
) -> list[np.ndarray[Any, Any]]:
    """For each output the derivatives by each element of one input (by its real and imaginary
    parts)."""
    values = np.array(inputs[which].detach().cpu().numpy())
    columns: list[list[Any]] = []
    steps = (eps, 1j * eps) if values.dtype.kind == "c" else (eps,)
    for position in np.ndindex(values.shape):
        for step in steps:
            sides = []
            for sign in (1, -1):
                moved = values.copy()
                moved[position] += sign * step
                changed = list(inputs)
                changed[which] = _like(moved, inputs[which])
                with modes.no_grad():
                    sides.append([_flat(o) for o in _outputs(func, changed)])
            columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    count = len(_outputs(func, inputs))
    return [
        np.array([c[k] for c in columns]).T if columns else np.zeros((0, 0)) for k in range(count)
    ]


def _like(values: np.ndarray[Any, Any], tensor: Any) -> Any:
    made = from_ndarray(values).to(tensor.device)
    if not tensor.is_contiguous():
        made = tensor.detach().clone().copy_(made)
    return made


def _analytical(out: Any, x: Any) -> np.ndarray[Any, Any]:
    """The derivatives of each element of an output by those of an input, from backward."""
    rows = []
    seeds = (1.0, 1j) if out.is_complex() else (1.0,)
    for position in range(out.numel()):
        for seed in seeds:
            weights = np.zeros(out.numel(), out.dtype.numpy)
            weights[position] = seed
            given = from_ndarray(weights.reshape(tuple(out.shape))).to(out.device)
            (found,) = grad(out, x, given, retain_graph=True, allow_unused=True)
            rows.append(np.zeros(x.numel(), x.dtype.numpy) if found is None else _flat(found))
    return np.array(rows).reshape(len(rows), x.numel())


def _compared(
    numerical: np.ndarray[Any, Any], analytical: np.ndarray[Any, Any], out: Any, x: Any
) -> Any:
    """Both as real matrices of the same shape: (output parts) x (input parts)."""
    if x.is_complex():
        analytical = np.stack([analytical.real, analytical.imag], -1).reshape(len(analytical), -1)
    if out.is_complex():
        numerical = np.stack([numerical.real, numerical.imag], 1).reshape(-1, numerical.shape[-1])
    return numerical, analytical


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether gradients of `func` agree with central differences, for each input that requires
    grad.

    Inputs should be float64. GradcheckError (a RuntimeError) says where they do not, or False
    without raise_exception.

    >>> import ember as torch
    >>> torch.autograd.gradcheck(torch.sin, torch.rand(3, dtype=torch.float64, requires_grad=True))
    True
    """
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    checked = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    check(
        checked,
        ValueError,
        "gradcheck expects at least one input tensor to require gradient, but none of the them "
        "have requires_grad=True.",
    )
    try:
        for which in checked:
            _check_one(func, given, which, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_one(
    func: Callable[..., Any], given: list[Any], which: int, eps: float, atol: float, rtol: float
) -> None:
    x = given[which]
    with modes.enable_grad():
        outs = _outputs(func, given)
    numerical = _numerical(func, given, which, eps)
    for index, out in enumerate(outs):
        if x.numel() == 0 or out.numel() == 0:
            continue
        if not out.requires_grad:
            analytical = np.zeros(
                (out.numel() * (2 if out.is_complex() else 1), x.numel()), x.dtype.numpy
            )
        else:
            analytical = _analytical(out, x)
        a, b = _compared(numerical[index], analytical, out, x)
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            raise GradcheckError(
                f"Jacobian mismatch for output {index} with respect to input "
                f"{which},\nnumerical:{a.T}\nanalytical:{b.T}\n"
            )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether gradients of gradients of `func` agree with central differences."""
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wanted = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        with modes.no_grad():
            outs = _outputs(func, given)
        seeds = [_seed(rng, o) for o in outs]
    else:
        seeds = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]

    def first(*arguments: Any) -> Any:
        inner, weights = list(arguments[: len(given)]), arguments[len(given) :]
        for i in wanted:
            if not inner[i].requires_grad:
                inner[i] = inner[i].detach().requires_grad_()
        with modes.enable_grad():
            live = [
                (o, w)
                for o, w in zip(_outputs(func, inner), weights, strict=True)
                if o.requires_grad
            ]
            found = grad(
                [o for o, _ in live],
                [inner[i] for i in wanted],
                [w for _, w in live],
                create_graph=True,
                allow_unused=True,
            )
        return tuple(f for f in found if f is not None)

    return gradcheck(
        first, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _seed(rng: np.random.Generator, out: Any) -> Any:
    values = rng.normal(size=tuple(out.shape))
    if out.dtype in dtypes.COMPLEX_TYPES:
        values = values + 1j * rng.normal(size=tuple(out.shape))
    made = from_ndarray(np.array(values, dtype=out.dtype.numpy)).to(out.device)
    return made.requires_grad_()
