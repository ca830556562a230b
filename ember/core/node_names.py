"""What the nodes of the graph are called: PyTorch's names, which users print and search for.

A node is named after its op, `AddBackward0`; `OPS` has the ops that are called otherwise. A
function made of several ops gives the last of them its own name if it is in `FUNCTIONS`, so that
the graph of a mean ends in `MeanBackward0` though it is a sum and a division here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ember.core.node import _sequence as sequence
from ember.kernel.array import Spec

Title = str | Callable[[Sequence[Any]], str | None]  # the latter is made from the op's arguments
node_types: dict[tuple[type, str], type] = {}
_steady: dict[tuple[type, str], type] = {}  # by the ops whose titles do not depend on operands
_bases: dict[type, type] = {}


def _table(text: str) -> dict[str, Title]:
    return {name: stem for name, _, stem in (entry.partition(":") for entry in text.split())}


def _dims(values: Sequence[Any], position: int = 1) -> int:
    """How many dims a window has: the length of the argument at `position`."""
    return max(2, len(values[position]))


def _by_dim(stem: str, given: int, absent: int) -> Title:
    """A name with one number where `dim` is given and another where it is not."""

    def title(values: Sequence[Any]) -> str:
        return f"{stem}Backward{absent if len(values) < 2 or values[1] is None else given}"

    return title


def _raised(operands: Sequence[Any]) -> str:
    if not isinstance(operands[0], Spec):
        return "PowBackward2"
    return f"PowBackward{int(len(operands) > 1 and isinstance(operands[1], Spec))}"


def _with_tensor(stem: str, tensor: int, number: int) -> Title:
    """A name with one number where the last operand is a tensor, another where it is a number."""

    def title(operands: Sequence[Any]) -> str:
        is_tensor = len(operands) > 1 and isinstance(operands[-1], Spec)
        return f"{stem}Backward{tensor if is_tensor else number}"

    return title


def _resampled(values: Sequence[Any]) -> str:
    mode = values[2].title().replace("-", "")
    return f"Upsample{mode}{len(values[1])}D"


OPS: dict[str, Title] = _table("""
    convolution_input:Convolution copy_backwards:CopyBackwards deg2rad:Deg2Rad entr:SpecialEntr
    erfcx:SpecialErfcx floor_divide:DivBackward2 gated:Glu i0e:SpecialI0E i1:SpecialI1
    i1e:SpecialI1E log1p:Log1P log_ndtr:SpecialLogNdtr logsigmoid:LogSigmoid ndtri:SpecialNdtri
    rad2deg:Rad2Deg relu6:Hardtanh root_mean_square_scaled:Mul selu:Elu sloped:PreluKernel
    share:Div square:Pow true_divide:Div xlog1py:SpecialXlog1Py zeta:SpecialZeta
""")
OPS |= {
    "adaptive_max_pool": lambda values: f"AdaptiveMaxPool{_dims(values)}D",
    "adaptive_average_pool": lambda values: f"AdaptiveAvgPool{_dims(values)}D",
    "average_pool": lambda values: f"AvgPool{_dims(values)}D",
    "clamp": _with_tensor("Clamp", 0, 1),
    "fmod": _with_tensor("Fmod", 1, 0),
    "lerp": _with_tensor("Lerp", 1, 0),
    "matmul": lambda values: "Mm" if values[0].ndim == values[1].ndim == 2 else "Bmm",
    "max_pool": lambda values: f"MaxPool{_dims(values)}DWithIndices",
    "pow": _raised,
    "product_of": _by_dim("Prod", 1, 0),
    "remainder": _with_tensor("Remainder", 1, 0),
    "resampled": _resampled,
    "sum": _by_dim("Sum", 1, 0),
}


def _linear(values: Sequence[Any]) -> str | None:
    if values[0].ndim != 2:
        return "View" if len(values) > 2 and values[2] is not None else "UnsafeView"
    return "Addmm" if len(values) > 2 and values[2] is not None else "Mm"


def _classified(values: Sequence[Any]) -> str | None:
    if values[1].is_floating_point():
        return None
    return "NllLoss2D" if values[0].ndim > 3 else "NllLoss"


def _padded(values: Sequence[Any]) -> str | None:
    mode = values[2] if len(values) > 2 else "constant"
    kind = {"reflect": "Reflection", "replicate": "Replication"}.get(mode)
    return f"{kind}Pad{len(values[1]) // 2}D" if kind else "ConstantPadNd"


FUNCTIONS: dict[str, Title] = _table("""
    addbmm:Addbmm addmm:Addmm addmv:Addmv addr:Addr affine_grid:AffineGridGenerator aminmax:Aminmax
    baddbmm:Baddbmm batch_norm:NativeBatchNorm binary_cross_entropy:BinaryCrossEntropy
    binary_cross_entropy_with_logits:BinaryCrossEntropyWithLogits block_diag:BlockDiag cdist:Cdist
    channel_shuffle:ChannelShuffle complex:Complex cummax:Cummax cummin:Cummin
    diagonal_scatter:DiagonalScatter dist:Dist dot:Dot embedding:Embedding
    embedding_bag:EmbeddingBag fold:Col2Im grid_sample:GridSampler2D group_norm:NativeGroupNorm
    huber_loss:HuberLoss index_reduce:IndexReduce layer_norm:NativeLayerNorm ldexp:Ldexp
    logsumexp:Logsumexp mse_loss:MseLoss multi_margin_loss:MultiMarginLoss
    multilabel_margin_loss:MultilabelMarginLoss mv:Mv mvlgamma:Mvlgamma nansum:Nansum
    norm:LinalgVectorNorm pixel_shuffle:PixelShuffle pixel_unshuffle:PixelUnshuffle polar:Polar
    renorm:Renorm repeat:Repeat roll:Roll rot90:Rot90 rrelu:RreluWithNoise
    scatter_add:ScatterAdd scatter_reduce:ScatterReduce select_scatter:SelectScatter
    slice_scatter:SliceScatter smooth_l1_loss:SmoothL1Loss stack:Stack std:Std std_mean:StdMean
    tile:Repeat trace:Trace unfold:Im2Col var:Var var_mean:VarMean vdot:Vdot
    vector_norm:LinalgVectorNorm
""")
FUNCTIONS |= {
    "cross_entropy": lambda values: None if len(values) > 7 and values[7] else _classified(values),
    "linear": _linear,
    "max": _by_dim("Max", 0, 1),
    "mean": _by_dim("Mean", 1, 0),
    "median": _by_dim("Median", 1, 0),
    "min": _by_dim("Min", 0, 1),
    "nll_loss": _classified,
    "pad": _padded,
}


def node_type(base: type, name: str, operands: Sequence[Any] = ()) -> Any:
    """The node class that carries an op's name: AddBackward0."""
    found = _steady.get((base, name))
    if found is not None:
        return found
    title = OPS.get(name)
    if not callable(title):
        found = _steady[base, name] = _named(base, name, title)
        return found
    return _named(base, name, title, operands)


def _named(base: type, name: str, title: Any, operands: Sequence[Any] = ()) -> type:
    if callable(title):
        title = title(operands) if operands else None
    if title is None:
        parent, derived, _ = name.partition("_backward_")
        if derived:  # the gradient of an op by one of its inputs
            return _titled(base, node_type(base, parent).__name__.removesuffix("0") + "Backward0")
        title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return _titled(base, title)


def _titled(base: type, title: str) -> type:
    found = node_types.get((base, title))
    if found is None:
        numbered = "Backward" in title[:-1] and title[-1] in "012s"
        full = title if numbered else title + "Backward0"
        found = node_types[base, title] = type(full, (base,), {"__slots__": ()})
        _bases[found] = base
    return found


def rename(node: Any, name: str) -> None:
    """Give a node the class that carries an op's name."""
    base = _bases.get(type(node))
    if base is not None:
        node.__class__ = node_type(base, name)


def with_named_result(function: Any, name: str) -> Any:
    """The function, or one that names the nodes of its results if PyTorch does."""
    title = FUNCTIONS.get(name)
    if title is None:
        return function
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = next(sequence)
        result = function(*args, **kwargs)
        for out in result if isinstance(result, tuple) else (result,):
            node = getattr(out, "_grad_fn", None)
            if node is not None and node.sequence > start and type(node) in _bases:
                found = title(_bound(parameters, args, kwargs)) if callable(title) else title
                if found is not None:
                    node.__class__ = _titled(_bases[type(node)], found)
        return result

    return call


def _bound(parameters: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments by position, None for those that are not given."""
    return [*args, *(kwargs.get(name) for name in parameters[len(args) :])]
