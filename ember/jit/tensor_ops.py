"""TorchScript's ops on tensors by Ember's functions: names, and arguments that are written another
way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.jit.archive_types import DTYPES, FORMATS
from ember.jit.layer_ops import LAYER_OPS
from ember.nn import functional as F

# Where an op takes a dtype without a name.
DTYPE_AT = {"softmax": 2, "log_softmax": 2, "_cast": 1, "type_as": 9}
DROPPED = ("layout", "pin_memory", "implicit", "non_blocking_copy")


def _to(value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to` in its four forms; numbers that are no bools are dtypes."""
    given = [DTYPES[a] if type(a) is int and i < 2 else a for i, a in enumerate(args)]
    if (given and isinstance(given[0], Device)) or (given and given[0] is None):
        names = ("device", "dtype", "non_blocking", "copy", "memory_format")
    elif given and isinstance(given[0], Tensor):
        names = ("other", "non_blocking", "copy", "memory_format")
    else:
        names = ("dtype", "non_blocking", "copy", "memory_format")
        if len(given) > 1 and isinstance(given[1], Device):
            given = [given[1], given[0], *given[2:]]
            names = ("device", "dtype", "non_blocking", "copy", "memory_format")
    named = dict(zip(names, given, strict=False)) | kwargs
    form = named.pop("memory_format", None)
    target = named.pop("other", None)
    named = {k: v for k, v in named.items() if v is not None}
    done = value.to(target, **named) if target is not None else value.to(**named)
    form = FORMATS.get(form, form) if type(form) is int else form
    return done if form is None else done.contiguous(memory_format=form)


def _convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, *flags: Any,
) -> Any:  # fmt: skip
    """A convolution of any number of dims, as traces call it."""
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    function = NAMESPACES["torch"][name]
    if transposed:
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return function(input, weight, bias, stride, padding, dilation, groups)


def _pool(name: str) -> Callable[..., Any]:
    def run(input: Any, kernel_size: Any, stride: Any = None, *rest: Any) -> Any:
        return getattr(F, name)(input, kernel_size, stride or None, *rest)

    return run


def _pool_with_indices(name: str) -> Callable[..., Any]:
    def run(input: Any, kernel_size: Any, stride: Any = None, *rest: Any) -> Any:
        return getattr(F, name)(input, kernel_size, stride or None, *rest, return_indices=True)

    return run


def _upsample(mode: str, aligned: bool) -> Callable[..., Any]:
    """`upsample_MODE(input, size[, align_corners], scales...)`, with the scales together or one by
    one."""

    def run(input: Any, size: Any, *rest: Any) -> Any:
        align = rest[0] if aligned and rest else None
        scales = [s for s in rest[1 if aligned else 0 :] if s is not None]
        if scales and isinstance(scales[0], (list, tuple)):
            scales = list(scales[0])
        if size is not None:
            return F.interpolate(input, size=list(size), mode=mode, align_corners=align)
        return F.interpolate(input, scale_factor=scales, mode=mode, align_corners=align)

    return run


def _reduced(code: int) -> str:
    return ("none", "mean", "sum")[code]


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    return F.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=_reduced(reduction),
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _nll(
    input: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Any:
    chosen = _reduced(reduction)
    return F.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=chosen)


def _plain_loss(name: str) -> Callable[..., Any]:
    def run(input: Any, target: Any, reduction: int = 1, *rest: Any) -> Any:
        return getattr(F, name)(input, target, reduction=_reduced(reduction), **_beta(name, rest))

    return run


def _beta(name: str, rest: tuple[Any, ...]) -> dict[str, Any]:
    if not rest:
        return {}
    return {"beta" if name == "smooth_l1_loss" else "delta": rest[0]}


def _binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return F.binary_cross_entropy(input, target, weight, reduction=_reduced(reduction))


def _elu(input: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if scale == input_scale == 1:
        return F.elu(input, alpha)
    return F.elu(input * input_scale, alpha) * scale


def _inplace(name: str) -> Callable[..., Any]:
    """An op that writes its result over its first argument."""

    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        return value.copy_(TENSOR_OPS.find(name)(value, *args, **kwargs))

    return run


def _index_put(value: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    return value.clone().index_put_(_filled(indices, value), values, accumulate)


def _index_put_(value: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if any(part is None for part in indices):
        value[tuple(slice(None) if part is None else part for part in indices)] = values
        return value
    return value.index_put_(tuple(indices), values, accumulate)


def _filled(indices: Any, value: Any) -> Any:
    return tuple(indices)


def _attention(
    query: Any, key: Any, value: Any, mask: Any = None, p: float = 0.0, *rest: Any, **named: Any
) -> Any:
    return F.scaled_dot_product_attention(query, key, value, mask, p, *rest, **named)


_SPECIAL: dict[str, Callable[..., Any]] = LAYER_OPS | {
    "to": _to,
    "_convolution": _convolution,
    "convolution": _convolution,
    "cpu": lambda value: value.cpu(),
    "cuda": lambda value: value.cuda(),
    "relu_": lambda value: value.relu_(),
    "dropout_": lambda value, p, train: value.copy_(F.dropout(value, p, train)),
    "upsample_nearest1d": _upsample("nearest", False),
    "upsample_nearest2d": _upsample("nearest", False),
    "upsample_nearest3d": _upsample("nearest", False),
    "_upsample_nearest_exact2d": _upsample("nearest-exact", False),
    "upsample_linear1d": _upsample("linear", True),
    "upsample_bilinear2d": _upsample("bilinear", True),
    "upsample_bicubic2d": _upsample("bicubic", True),
    "upsample_trilinear3d": _upsample("trilinear", True),
    "cross_entropy_loss": _cross_entropy,
    "nll_loss": _nll,
    "nll_loss_nd": _nll,
    "nll_loss2d": _nll,
    "mse_loss": _plain_loss("mse_loss"),
    "l1_loss": _plain_loss("l1_loss"),
    "smooth_l1_loss": _plain_loss("smooth_l1_loss"),
    "huber_loss": _plain_loss("huber_loss"),
    "binary_cross_entropy": _binary_cross_entropy,
    "elu": _elu,
    "elu_": _inplace("elu"),
    "log_sigmoid": F.logsigmoid,
    "index_put": _index_put,
    "index_put_": _index_put_,
    "unbind": lambda value, dim=0: list(value.unbind(dim)),
    "split_with_sizes": lambda value, sizes, dim=0: list(value.split(sizes, dim)),
    "scaled_dot_product_attention": _attention,
    "__interpolate": F.interpolate,
    "ones_like_": lambda value: value.fill_(1),
    "detach_": lambda value: value.detach_(),
    "hann_window": lambda *args, **kwargs: NAMESPACES["torch"]["hann_window"](*args, **kwargs),
    "isinf": lambda value: value.isinf() if isinstance(value, Tensor) else math.isinf(value),
}
for _dims in "123":
    for _name in ("max_pool", "avg_pool"):
        _SPECIAL[f"{_name}{_dims}d"] = _pool(f"{_name}{_dims}d")
    _SPECIAL[f"max_pool{_dims}d_with_indices"] = _pool_with_indices(f"max_pool{_dims}d")
    _SPECIAL[f"adaptive_max_pool{_dims}d"] = lambda value, size, _dims=_dims: getattr(
        F, f"adaptive_max_pool{_dims}d"
    )(value, size, return_indices=True)


def _converted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes dtypes and formats as TorchScript writes them: numbers."""
    at = DTYPE_AT.get(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {k: _value(k, v) for k, v in kwargs.items() if k not in DROPPED}
            if kwargs.get("memory_format", 0) is None:
                del kwargs["memory_format"]
        if at is not None and len(args) > at and type(args[at]) is int:
            args = (*args[:at], DTYPES[args[at]], *args[at + 1 :])
        return function(*args, **kwargs)

    return run


def _value(name: str, value: Any) -> Any:
    if type(value) is not int:
        return value
    if name in ("dtype", "output_dtype"):
        return DTYPES[value]
    return FORMATS[value] if name == "memory_format" else value


class _Tensors:
    """Finds an op on tensors by its name."""

    def __init__(self) -> None:
        self._found: dict[str, Callable[..., Any]] = {}

    def find(self, name: str) -> Callable[..., Any]:
        """The function of an op; NotImplementedError if Ember has none."""
        if name not in self._found:
            self._found[name] = _converted(name, self._search(name))
        return self._found[name]

    @staticmethod
    def _search(name: str) -> Callable[..., Any]:
        if name in _SPECIAL:
            return _SPECIAL[name]
        spaces = ("torch", "Tensor", "nn.functional", "linalg", "fft", "special")
        for space in spaces:
            short = name.removeprefix(f"{space}_") if space in spaces[3:] else name
            if space in spaces[3:] and short == name:
                continue
            try:
                return NAMESPACES[space][short]  # type: ignore[no-any-return]
            except KeyError:
                continue
        own = getattr(Tensor, name, None)
        if callable(own) and not name.startswith("_"):
            return own
        if name.endswith("_") and not name.endswith("__"):
            return _inplace(name[:-1])
        raise NotImplementedError(
            f"torch.jit.load: the archive calls the op {name!r}, which Ember does not have"
        )


TENSOR_OPS = _Tensors()
