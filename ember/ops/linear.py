"""Linear and bilinear maps."""

from ember.backends.base import has_cpu_kernels, kernels_of
from ember.backends.library import Library
from ember.core import modes
from ember.core.registry import FUNCTION, F, composite, library_op
from ember.dtypes import HALF, float32, float64
from ember.errors import check


def rounds_late(input):
    """Whether products and what is added to them are best computed in float32 and rounded once.

    So with half precision where the device multiplies it in float32 anyway.
    """
    if input.dtype not in HALF or input.is_meta:
        return False
    return kernels_of(input.device).widens_half


def widened(*tensors):
    """The tensors with half precision as float32; None stays."""
    return tuple(t if t is None or t.dtype not in HALF else t.to(float32) for t in tensors)


def _is_one_op(input, weight, bias):
    """Whether the map runs as one op: with the CPU's kernels, in single or double
    precision, outside of transforms, where the shapes go together."""
    x, w = input._array.spec, weight._array.spec
    b = w if bias is None else bias._array.spec
    return (
        x.device is w.device is b.device
        and has_cpu_kernels(x.device)
        and x.dtype in (float32, float64)
        and x.dtype is w.dtype is b.dtype
        and not modes.state.levels
        and x.ndim > 1
        and w.ndim == 2
        and x.shape[-1] == w.shape[1] > 0
        and (bias is None or b.shape == w.shape[:1])
    )


@library_op(Library.linear, name="affine")
def affine(input, weight, bias):
    """input @ weightᵀ + bias as one op."""
    return input.spec.with_shape((*input.shape[:-1], weight.shape[0]))


@library_op(Library.linear_backward)
def affine_backward(g, input, weight, biased, needs):
    """The gradients of `affine`; without elements where they are not needed."""
    shapes = [tuple(input.shape), tuple(weight.shape), (weight.shape[0],)][: 3 if biased else 2]
    return tuple(g.spec.with_shape(s if n else (0,)) for s, n in zip(shapes, needs))


def _affine_gradient(g, input, weight, bias_spec, needs):
    if not (modes.state.grad or modes.state.levels):
        made = affine_backward(g, input, weight, bias_spec is not None, needs)
        return tuple(m if n else None for m, n in zip(made, needs))
    rows, by_row = input.reshape(-1, input.shape[-1]), g.reshape(-1, g.shape[-1])
    found = (
        g.matmul(weight) if needs[0] else None,
        by_row.t().matmul(rows) if needs[1] else None,
    )
    return found if bias_spec is None else (*found, by_row.sum(0) if needs[2] else None)


affine.grad = _affine_gradient


@composite(export=F)
def linear(input, weight, bias=None):
    """input @ weightᵀ + bias: (*, in) with (out, in) to (*, out). RuntimeError for other shapes.

    >>> import ember as torch
    >>> torch.nn.functional.linear(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]), torch.ones(1))
    tensor([[4.]])
    """
    if _is_one_op(input, weight, bias):
        return affine(input, weight, bias)
    check(
        weight.dim() <= 2,
        RuntimeError,
        lambda: f"t() expects a tensor with <= 2 dimensions, but self is {weight.dim()}D",
    )
    if bias is not None and rounds_late(input):
        return linear(*widened(input, weight, bias)).to(input.dtype)
    out = input.matmul(weight.t())
    return out if bias is None else out + bias


@composite(export=FUNCTION | F)
def bilinear(input1, input2, weight, bias=None):
    """x1ᵀ W_k x2 + b_k for each k: (*, in1), (*, in2) with (out, in1, in2) to (*, out).

    >>> import ember as torch
    >>> x = torch.ones(1, 2)
    >>> torch.nn.functional.bilinear(x, x, torch.ones(3, 2, 2))
    tensor([[4., 4., 4.]])
    """
    check(
        input1.dim() == input2.dim(),
        RuntimeError,
        lambda: f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}",
    )
    for dim, (n, m) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        check(
            n == m,
            RuntimeError,
            f"bilinear(): input batch dimensions do not match at dim {dim}: got {n} and {m}",
        )
    check(weight.dim() == 3, IndexError, f"bilinear(): weight must be 3-D, got {weight.dim()}-D")
    for name, n, m in (
        ("input1", input1.size(-1), weight.size(1)),
        ("input2", input2.size(-1), weight.size(2)),
        ("bias", weight.size(0) if bias is None else bias.size(0), weight.size(0)),
    ):
        check(
            n == m,
            RuntimeError,
            f"bilinear(): {name} size does not match weight size: got {n} but expected {m}",
        )
    out, first, second = weight.shape
    rows = input1.reshape(-1, first).matmul(weight.transpose(0, 1).reshape(first, out * second))
    found = rows.view(-1, out, second).matmul(input2.reshape(-1, second, 1)).squeeze(-1)
    found = found.view(*input1.shape[:-1], out)
    return found if bias is None else found + bias
