"""`gradcheck`: gradients held against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ember import dtypes
from ember.autograd.backward import grad
from ember.core import modes
from ember.core.dispatch import is_differentiable
from ember.core.tensor import Tensor, from_ndarray
from ember.errors import check
from ember.source_lines import warn


class GradcheckError(RuntimeError):
    """A gradient that finite differences contradict."""


def _tensors(values: Any) -> list[Tensor]:
    values = values if isinstance(values, (tuple, list)) else (values,)
    return [v for v in values if isinstance(v, Tensor)]


class _Limits(NamedTuple):
    """What a check allows, and what it looks at."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    batched: bool
    forward: bool
    batched_forward: bool
    backward: bool


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
    return _parted(numerical, out), analytical


def _parted(matrix: np.ndarray[Any, Any], out: Any) -> np.ndarray[Any, Any]:
    """With the real and imaginary parts of a complex output as two rows."""
    if not out.is_complex():
        return matrix
    return np.stack([matrix.real, matrix.imag], 1).reshape(-1, matrix.shape[-1])


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
    limits = _Limits(
        eps,
        atol,
        rtol,
        nondet_tol,
        check_undefined_grad,
        check_batched_grad,
        check_forward_ad,
        check_batched_forward_grad,
        check_backward_ad,
    )
    _check_options(limits)
    try:
        _check_all(func, given, _checked(given), limits)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_options(limits: _Limits) -> None:
    """AssertionError for options that do not go together."""
    check(
        limits.forward or limits.backward,
        AssertionError,
        "Expected at least one of check_forward_ad or check_backward_ad to be True",
    )
    check(
        limits.backward or not limits.batched,
        AssertionError,
        "Setting check_batched_grad=True requires check_backward_ad to be True",
    )
    check(
        limits.forward or not limits.batched_forward,
        AssertionError,
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
    )


def _checked(given: list[Any]) -> list[int]:
    """The positions of the inputs that require gradients."""
    checked = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    for i in checked:
        if given[i].dtype not in (dtypes.float64, dtypes.complex128):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. "
            )
    check(
        checked,
        ValueError,
        "gradcheck expects at least one input tensor to require gradient, but none of them have "
        "requires_grad=True.",
    )
    for i in checked:
        spec = given[i]._array.spec
        check(
            all(n <= 1 or step != 0 for n, step in zip(spec.shape, spec.strides, strict=True)),
            RuntimeError,
            f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
            "are non-overlapping to be able to compute the numerical gradients correctly. You "
            "should call .contiguous on the input before passing it to gradcheck.",
        )
    return checked


def _check_all(
    func: Callable[..., Any], given: list[Any], checked: list[int], limits: _Limits
) -> None:
    with modes.enable_grad():
        outs = _outputs(func, given)
    live = [i for i, out in enumerate(outs) if out.requires_grad]
    for which in checked:
        numerical = _numerical(func, given, which, limits.eps)
        if not live:
            if any(np.any(matrix != 0) for matrix in numerical):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            continue
        for index in live:
            out, x = outs[index], given[which]
            if x.numel() == 0 or out.numel() == 0:
                continue
            if limits.backward:
                _check_backward(numerical[index], out, x, (index, which), limits)
            if limits.forward:
                _check_forward(func, given, numerical[index], (index, which), limits)
    if limits.undefined and limits.backward:
        for index in live:
            _check_undefined(outs[index])


def _check_backward(
    numerical: np.ndarray[Any, Any], out: Any, x: Any, place: tuple[int, int], limits: _Limits
) -> None:
    analytical = _analytical(out, x)
    _compare("Jacobian", numerical, analytical, out, x, place, limits)
    again = _analytical(out, x)
    if np.abs(analytical - again).max(initial=0.0) > limits.nondet_tol:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values, although analytical gradient matches numerical "
            f"gradient.The tolerance for nondeterminism was {limits.nondet_tol}.\n\nIf that is "
            "expected, give gradcheck a `nondet_tol`."
        )
    if limits.batched:
        _check_batched(analytical, out, x)


def _check_forward(
    func: Callable[..., Any],
    given: list[Any],
    numerical: np.ndarray[Any, Any],
    place: tuple[int, int],
    limits: _Limits,
) -> None:
    """Forward-mode derivatives: one tangent for each element of the input (and one for its
    imaginary part)."""
    index, which = place
    x = given[which]
    duals = import_module("ember.autograd.forward_ad")
    columns = []
    for position in range(x.numel()):
        for step in (1.0, 1j) if x.is_complex() else (1.0,):
            tangent = _unit(x, position, step)
            with duals.dual_level():
                moved = list(given)
                moved[which] = duals.make_dual(x.detach(), tangent)
                out = _outputs(func, moved)[index]
                change = duals.unpack_dual(out).tangent
                zero = np.zeros(out.numel(), out.dtype.numpy)
                columns.append(zero if change is None else _flat(change))
    out = _outputs(func, given)[index]
    found = np.array(columns).T
    a, b = _parted(numerical, out), _parted(found, out)
    if not np.allclose(a, b, rtol=limits.rtol, atol=limits.atol, equal_nan=True):
        raise _mismatch("Jacobian computed with forward mode", a, b, x, place)
    if limits.batched_forward:
        _check_batched_forward(func, given, found, place)


def _check_batched(analytical: np.ndarray[Any, Any], out: Any, x: Any) -> None:
    """Gradients of all elements of an output at once, by vmap, are those one by one."""
    seeds = [_unit(out, i, 1.0) for i in range(out.numel())]

    def one(weights: Any) -> Any:
        (found,) = grad(out, x, weights, retain_graph=True, allow_unused=True)
        return x * 0 if found is None else found

    rows = analytical[:: 2 if out.is_complex() else 1]
    _hold_batched(_stacked(one, seeds, "batched gradients"), rows, "batched gradient")


def _check_batched_forward(
    func: Callable[..., Any], given: list[Any], found: np.ndarray[Any, Any], place: tuple[int, int]
) -> None:
    index, which = place
    x = given[which]
    duals = import_module("ember.autograd.forward_ad")

    def one(tangent: Any) -> Any:
        with duals.dual_level():
            moved = list(given)
            moved[which] = duals.make_dual(x.detach(), tangent)
            out = _outputs(func, moved)[index]
            change = duals.unpack_dual(out).tangent
            return out * 0 if change is None else change

    columns = found[:, :: 2 if x.is_complex() else 1].T
    seeds = [_unit(x, i, 1.0) for i in range(x.numel())]
    _hold_batched(_stacked(one, seeds, "batched forward mode"), columns, "batched forward mode")


def _stacked(one: Callable[[Any], Any], seeds: list[Any], what: str) -> np.ndarray[Any, Any]:
    torch = import_module("ember")
    try:
        made = import_module("ember.func").vmap(one)(torch.stack(seeds))
    except RuntimeError as error:
        raise GradcheckError(
            f"While computing {what}, got: {error}\n\ngradcheck or gradgradcheck failed while "
            "testing batched gradient computation: the function cannot run inside vmap, so leave "
            "check_batched_grad=False"
        ) from error
    return _flat(made).reshape(len(seeds), -1)


def _hold_batched(batched: np.ndarray[Any, Any], single: np.ndarray[Any, Any], what: str) -> None:
    if not np.allclose(batched, single, equal_nan=True):
        raise GradcheckError(
            f"gradcheck or gradgradcheck failed while testing {what} computation: got\n{batched}\n"
            f"inside vmap, and one by one\n{single}"
        )


def _check_undefined(out: Any) -> None:
    """A user's backward given None for the gradient gives none, or zeros."""
    node = out.grad_fn
    context = getattr(node, "context", None)
    if getattr(context, "materialize_grads", True):
        return
    for found in node.apply([None] * len(node.out_specs)):
        if isinstance(found, Tensor) and np.any(_flat(found) != 0):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                'undefined or zero. Please look at "Notes about undefined output gradients": a '
                "backward whose ctx.set_materialize_grads(False) handles None."
            )


def _unit(tensor: Any, position: int, step: complex) -> Any:
    values = np.zeros(tensor.numel(), tensor.dtype.numpy)
    values[position] = step
    return from_ndarray(values.reshape(tuple(tensor.shape))).to(tensor.device)  # type: ignore[attr-defined]


def _compare(
    what: str,
    numerical: np.ndarray[Any, Any],
    analytical: np.ndarray[Any, Any],
    out: Any,
    x: Any,
    place: tuple[int, int],
    limits: _Limits,
) -> None:
    a, b = _compared(numerical, analytical, out, x)
    if not np.allclose(a, b, rtol=limits.rtol, atol=limits.atol, equal_nan=True):
        raise _mismatch(what, a, b, x, place)


def _mismatch(what: str, a: Any, b: Any, x: Any, place: tuple[int, int]) -> GradcheckError:
    real = x.dtype if not x.is_complex() else x.dtype.to_real()
    numerical, analytical = (
        from_ndarray(np.ascontiguousarray(m.T).astype(real.numpy)) for m in (a, b)
    )
    return GradcheckError(
        f"{what} mismatch for output {place[0]} with respect to input {place[1]},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
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
    check(
        check_fwd_over_rev or check_rev_over_rev,
        AssertionError,
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
    )
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wanted = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        with modes.no_grad():
            outs = _outputs(func, given)
        seeds = [_seed(rng, o, gen_non_contig_grad_outputs) for o in outs]
    else:
        seeds = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]

    return gradcheck(
        _gradients_of(func, given, wanted),
        (*given, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _gradients_of(
    func: Callable[..., Any], given: list[Any], wanted: list[int]
) -> Callable[..., Any]:
    """The function of inputs and weights that gives the gradients by the wanted inputs."""

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

    return first


def _seed(rng: np.random.Generator, out: Any, apart: bool) -> Any:
    values = rng.normal(size=tuple(out.shape))
    if out.dtype in dtypes.COMPLEX_TYPES:
        values = values + 1j * rng.normal(size=tuple(out.shape))
    made = from_ndarray(np.array(values, dtype=out.dtype.numpy)).to(out.device)
    if apart and made.ndim:  # elements that are not next to each other
        made = made.repeat_interleave(2, dim=-1)[..., ::2]
    return made.requires_grad_()
