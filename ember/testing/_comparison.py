"""`assert_close`: two results are compared pair by pair, however they are nested."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ember import dtypes, ops
from ember.core.tensor import Tensor
from ember.errors import check

NUMBERS = (int, float, complex, np.number)
_TOLERANCES = {  # (relative, absolute)
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OF_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


class _Mismatch(Exception):
    """How two values differ, and at which item of the containers."""

    def __init__(self, kind: type[Exception], text: str, path: tuple[Any, ...] = ()):
        super().__init__(text)
        self.kind, self.text, self.path = kind, text, path

    def error(self, msg: str | Callable[[str], str] | None) -> Exception:
        """The error to raise, with the caller's message."""
        text = self.text
        if self.path:
            where = "".join(f"[{item!r}]" for item in self.path)
            text += f"\n\nThe failure occurred for item {where}"
        if isinstance(msg, str):
            return self.kind(msg)
        return self.kind(msg(text) if msg is not None else text)


class _Options:
    def __init__(self, rtol: float | None, atol: float | None, **flags: bool):
        check(
            (rtol is None) == (atol is None),
            ValueError,
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'atol' if atol is None else 'rtol'}.",
        )
        self.rtol, self.atol = rtol, atol
        self.allow_subclasses = flags["allow_subclasses"]
        self.equal_nan = flags["equal_nan"]
        self.device, self.dtype = flags["check_device"], flags["check_dtype"]
        self.layout, self.stride = flags["check_layout"], flags["check_stride"]

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        """(rtol, atol): those given, or the widest that the dtypes are due."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(r for r, _ in known), max(a for _, a in known)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol·|expected| for tensors, numbers, and
    sequences and mappings of them; device, dtype, layout and shape must agree too.

    Tolerances left out follow the dtypes: none for integers, 1.3e-6 and 1e-5 for float32. `msg`
    replaces the message, or makes another one of it. TypeError for what cannot be compared.

    >>> import ember as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000001]))
    """
    __tracebackhide__ = True
    options = _Options(
        rtol,
        atol,
        allow_subclasses=allow_subclasses,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    try:
        pairs = list(_pairs(actual, expected, options, ()))
        for compare, one, other, path in pairs:
            _at(path, compare, one, other, options)
    except _Mismatch as mismatch:
        error = mismatch.error(msg)
    else:
        return
    raise error


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of `assert_close`: anything that `torch.as_tensor` takes, of any dtype."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual = actual if isinstance(actual, Tensor) else ops.as_tensor(actual)
    if not isinstance(expected, Tensor):
        expected = ops.as_tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _Options(
            None,
            None,
            **dict.fromkeys(
                (
                    "allow_subclasses",
                    "equal_nan",
                    "check_device",
                    "check_dtype",
                    "check_layout",
                    "check_stride",
                ),
                True,
            ),
        ).tolerances(actual.dtype, expected.dtype)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


# containers


def _pairs(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> Any:
    """(comparison, actual, expected, path) of each pair of values, left to right."""
    both = (actual, expected)
    if all(isinstance(v, Sequence) and not isinstance(v, str) for v in both):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise _Mismatch(AssertionError, text, path)
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(one, other, options, (*path, i))
    elif all(isinstance(v, Mapping) for v in both):
        missing, more = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or more:
            raise _Mismatch(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {_sorted(missing)}\n"
                f"Additional keys in the actual mapping: {_sorted(more)}",
                path,
            )
        for key in _sorted(expected.keys()):
            yield from _pairs(actual[key], expected[key], options, (*path, key))
    else:
        yield (*_comparison(actual, expected, options, path), path)


def _sorted(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def _comparison(
    actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]
) -> tuple[Any, Any, Any]:
    both = (actual, expected)
    if actual is None or expected is None:
        return _compare_none, actual, expected
    if all(isinstance(v, (bool, np.bool_)) for v in both):
        return _compare_bools, actual, expected
    if all(isinstance(v, NUMBERS) for v in both):
        return _compare_numbers, actual, expected
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (options.allow_subclasses or type(actual) is type(expected)):
        if isinstance(actual, str) or isinstance(expected, str):
            pass
        elif all(isinstance(v, Tensor) for v in both):
            return _compare_tensors, actual, expected
        else:
            try:
                return _compare_tensors, ops.as_tensor(actual), ops.as_tensor(expected)
            except Exception:
                pass
    raise _Mismatch(
        TypeError,
        f"No comparison pair was able to handle inputs of type {type(actual)} and "
        f"{type(expected)}.",
        path,
    )


def _at(path: tuple[Any, ...], compare: Any, one: Any, other: Any, options: _Options) -> None:
    text = compare(one, other, options)
    if text:
        raise _Mismatch(AssertionError, text, path)


# values: each comparison gives what is wrong, or None


def _compare_none(actual: Any, expected: Any, options: _Options) -> str | None:
    return None if actual is expected else f"None mismatch: {actual} is not {expected}"


def _compare_bools(actual: Any, expected: Any, options: _Options) -> str | None:
    if bool(actual) is bool(expected):
        return None
    return f"Booleans mismatch: {bool(actual)} is not {bool(expected)}"


def _compare_numbers(actual: Any, expected: Any, options: _Options) -> str | None:
    actual, expected = (v.item() if isinstance(v, np.number) else v for v in (actual, expected))
    if options.dtype and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    kinds = [_OF_NUMBERS.get(type(v), dtypes.int64) for v in (actual, expected)]
    rtol, atol = options.tolerances(*kinds)
    return _scalars(actual, expected, rtol, atol, options.equal_nan)


def _is_close(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if actual == expected:
        return True
    if cmath.isnan(actual) or cmath.isnan(expected):
        return equal_nan and cmath.isnan(actual) and cmath.isnan(expected)
    if cmath.isinf(actual) or cmath.isinf(expected):
        return False
    return bool(abs(actual - expected) <= atol + rtol * abs(expected))


def _scalars(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> str | None:
    if _is_close(actual, expected, rtol, atol, equal_nan):
        return None
    is_exact = rtol == 0 and atol == 0
    difference = (
        abs(int(actual) - int(expected)) if isinstance(actual, bool) else abs(actual - expected)
    )
    relative = float("inf") if expected == 0 else difference / abs(expected)
    up_to = ("", "") if is_exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (
        f"Scalars are not {'equal' if is_exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{up_to[0]}\n"
        f"Relative difference: {relative}{up_to[1]}"
    )


def _compare_tensors(actual: Any, expected: Any, options: _Options) -> str | None:
    text = _attributes(actual, expected, options)
    if text is not None or actual.is_meta or expected.is_meta:
        return text
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    actual, expected = (_plain(v) for v in (actual, expected))
    if actual.layout is not expected.layout or str(actual.layout) != "torch.strided":
        if actual.layout is expected.layout and actual._nnz() != expected._nnz():
            return (
                "The number of specified values in sparse COO tensors does not match: "
                f"{actual._nnz()} != {expected._nnz()}"
            )
        actual, expected = (
            v if str(v.layout) == "torch.strided" else v.to_dense() for v in (actual, expected)
        )
    if actual.dtype is not expected.dtype:
        common = dtypes.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.ndim == 0:
        return _scalars(actual.item(), expected.item(), rtol, atol, options.equal_nan)
    close = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    return None if bool(close.all()) else _difference(actual, expected, close, rtol, atol)


def _plain(tensor: Any) -> Any:
    """Without history, class or GPU."""
    plain = Tensor.detach(tensor)
    return plain if plain.device.type == "cpu" else plain.to("cpu")


def _attributes(actual: Any, expected: Any, options: _Options) -> str | None:
    wrong: Any = None
    if actual.shape != expected.shape:
        wrong = "shape", actual.shape, expected.shape
    elif actual.layout is not expected.layout:
        if options.layout:
            wrong = "layout", actual.layout, expected.layout
    elif options.stride and actual.stride() != expected.stride():
        wrong = "stride()", actual.stride(), expected.stride()
    if wrong is None and options.device and actual.device != expected.device:
        wrong = "device", actual.device, expected.device
    if wrong is None and options.dtype and actual.dtype is not expected.dtype:
        wrong = "dtype", actual.dtype, expected.dtype
    if wrong is None:
        return None
    return f"The values for attribute '{wrong[0]}' do not match: {wrong[1]} != {wrong[2]}."


def _difference(actual: Any, expected: Any, close: Any, rtol: float, atol: float) -> str:
    """What to say of tensors that are not close."""
    if not actual.is_floating_point() and not actual.is_complex():
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    absolute, relative = (ops.where(close, ops.zeros_like(d), d) for d in (absolute, relative))
    total, wrong = close.numel(), int((~close).sum())
    is_exact = rtol == 0 and atol == 0
    lines = [
        f"Tensor-likes are not {'equal' if is_exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for name, values, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        at = int(ops.argmax(values.flatten()))
        index = tuple(int(i) for i in np.unravel_index(at, tuple(values.shape)))
        up_to = "" if is_exact else f" (up to {allowed} allowed)"
        largest = values.flatten()[at].item()
        lines.append(f"Greatest {name} difference: {largest} at index {index}{up_to}")
    return "\n".join(lines)
