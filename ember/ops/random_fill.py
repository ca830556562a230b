"""Random numbers written into tensors: `normal_`, `uniform_`, `random_` and the like.

All draws pass `draw`: it finds the generator, and runs as a call that a capture can record. A
result does not depend on what was in the tensor, so gradients for it are zeros. On `meta` nothing
is drawn or checked.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

from ember import dtypes
from ember.backends.cpu.errstate import enter, leave
from ember.core import executor, modes
from ember.core.array import full
from ember.core.dispatch import edges_of, find_device, needs_grad, node_type
from ember.core.generator import generator_for
from ember.core.history import check_write, rebind, written
from ember.core.node import Node
from ember.core.registry import METHOD, composite
from ember.core.tensor import Tensor, tensor_of
from ember.device import META
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.call import Call
from ember.ops.complex_numbers import view_as_real

C_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}
DIGITS = {
    "float16": 11,
    "bfloat16": 8,
    "float32": 24,
    "float64": 53,
}  # of whole numbers held exactly
_SMALLEST, _GREATEST = -(1 << 63), (1 << 63) - 1


class ZeroGradient(Node):
    """A draw as a recorded op: what it was given gets a gradient of zeros."""

    def __init__(self, inputs: Sequence[Tensor], output: Tensor):
        super().__init__(edges_of(inputs), (output._array.spec,))
        self.specs = [t._array.spec for t in inputs]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Zeros."""
        return tuple(
            None if target is None else tensor_of(full(spec.with_shape(spec.shape), 0))
            for spec, (target, _) in zip(self.specs, self.edges, strict=True)
        )


def draw(target: Tensor, generator: Any, distribution: str, *parameters: Any) -> None:
    """Fill the memory of a tensor from a distribution of backends/cpu/random_fills.py."""
    if modes.state.levels and _draw_above(target, generator, distribution, parameters):
        return
    if target.dtype is dtypes.complex32:
        target = view_as_real(target.detach())
    spec = target._array.spec
    if spec.device is META:
        return
    source = generator_for(generator, spec.device).source
    given = tuple(p._array if isinstance(p, Tensor) else p for p in parameters)
    operands = (target._array, source, distribution, *given)
    slot = executor._slot[0]
    if slot is None:
        _run(*operands)
    else:
        specs = tuple(p._array.spec if isinstance(p, Tensor) else p for p in parameters)
        slot.run(Call(distribution, (spec, *specs), (spec,), (0,)), _run, operands)


def _draw_above(
    target: Tensor, generator: Any, distribution: str, parameters: Sequence[Any]
) -> bool:
    """Draw as the innermost vmap has it; False where none is in force."""
    frame = next((f for f in reversed(modes.state.levels) if f.batches), None)
    if frame is None:
        return False

    def again(tensor: Tensor, below: Sequence[Any]) -> None:
        draw(tensor, generator, distribution, *below)

    frame.draw(target, again, parameters, distribution == "permute")
    return True


def _run(array: Any, source: Any, distribution: str, *parameters: Any) -> Any:
    token = enter()
    try:
        source.fill(array, distribution, *parameters)
    finally:
        leave(token)
    return array


def draw_into(
    self: Tensor, name: str, generator: Any, distribution: str, *parameters: Any
) -> Tensor:
    """`draw` as an in-place op on a tensor: checks, version, history."""
    check_write(self)
    draw(self, generator, distribution, *parameters)
    written(self)
    if modes.state.grad and needs_grad(self):
        rebind(self, node_type(ZeroGradient, name)([self], self), 0)
    return self


def check_dtype(name: str, dtype: DType, accepted: frozenset[DType]) -> None:
    """PyTorch's NotImplementedError for a dtype that a distribution does not have."""
    if dtype not in accepted:
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.title}'")


# normal and uniform


def check_normal(dtype: DType, std: float) -> None:
    """RuntimeError for a negative standard deviation, NotImplementedError for integers."""
    check(std >= 0, RuntimeError, lambda: f"normal expects std >= 0.0, but found std {std:g}")
    check_dtype("normal_kernel_cpu", dtype, dtypes.FLOATING | dtypes.COMPLEX_TYPES)


@composite(METHOD)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers of a mean and a standard deviation.

    Of a complex tensor, both parts are drawn with std/√2. RuntimeError for a negative `std`.

    >>> import ember as torch
    >>> torch.empty(2).normal_(generator=torch.Generator().manual_seed(0))
    tensor([ 1.5410, -0.2934])
    """
    if not self.is_meta:
        check_normal(self.dtype, std)
    part = float(std) / math.sqrt(2) if self.is_complex() else float(std)
    return draw_into(self, "normal", generator, "normal", float(mean), part)


def check_uniform(dtype: DType, low: float, high: float) -> None:
    """RuntimeError for bounds that are out of order or do not fit the dtype."""
    check_dtype("check_uniform_bounds", dtype, dtypes.FLOATING | dtypes.COMPLEX_TYPES)
    if (low, high) == (0.0, 1.0):
        return
    real = dtype.to_real()
    greatest, c_name = _limits(real)[1], C_NAMES[real.name]
    for name, bound in (("from", low), ("to", high)):
        fits = -greatest <= bound <= greatest
        check(fits, RuntimeError, f"{name} is out of bounds for {c_name}: {bound:g}")
    check(
        low <= high,
        RuntimeError,
        f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}",
    )
    check(
        high - low <= greatest,
        RuntimeError,
        f"uniform_ expects to-from <= std::numeric_limits<{real.title}>::max(), but found "
        f"to={high:g} and from={low:g} which result in to-from to exceed the limit",
    )


def _bounds(
    name: str, given: tuple[Any, ...], named: dict[str, Any], *defaults: Any
) -> tuple[Any, ...]:
    """The arguments `from` (a word of Python's, so no parameter can have that name) and `to`."""
    unknown = [k for k in named if k not in ("from", "to")]
    check(
        not unknown,
        TypeError,
        f"{name}() got an unexpected keyword argument '{''.join(unknown[:1])}'",
    )
    check(
        len(given) + len(named) <= 2 and not (given and "from" in named),
        TypeError,
        f"{name}() takes `from` and `to`, each once: got {given} and {named}",
    )
    values = {**dict(zip(("from", "to"), defaults)), **dict(zip(("from", "to"), given)), **named}
    return values["from"], values["to"]


@composite(METHOD)
def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """Fill with uniform numbers in [from, to), by default [0, 1): `uniform_(from=0, to=1)`.

    RuntimeError for bounds that are out of order or do not fit the dtype.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).uniform_(-1, 1)
    tensor([-0.0075,  0.5364])
    """
    low, high = (float(b) for b in _bounds("uniform_", bounds, named, 0.0, 1.0))
    if not self.is_meta:
        check_uniform(self.dtype, low, high)
    return draw_into(self, "uniform", generator, "uniform", low, high)


# integers


def integer(name: str, argument: str, value: Any) -> int:
    """A whole number of 64 bits; TypeError for a float, ValueError for one too large."""
    if type(value) is int and _SMALLEST <= value <= _GREATEST:
        return value
    number = value.item() if isinstance(value, Tensor) else value
    kind = type(number).__name__
    check(
        hasattr(number, "__index__"),
        TypeError,
        f"{name}() received an invalid combination of arguments: argument '{argument}' must be "
        f"int, not {kind}",
    )
    whole = int(number.__index__())
    fits = _SMALLEST <= whole <= _GREATEST
    check(fits, ValueError, f"Overflow when unpacking long long: {argument}={whole}")
    return whole


def whole_range(dtype: DType, low: int, high: int | None) -> tuple[int, int]:
    """The least number and the count of numbers of the integers low ... high − 1 in a dtype.

    Without `high` they go up to the greatest number of the dtype. A floating-point dtype moves
    bounds that it cannot hold inwards. RuntimeError for bounds out of order or beyond the dtype.
    """
    check(
        dtype in dtypes.REAL_OR_BOOL,
        RuntimeError,
        "check_random_bounds handles only integral, floating-point and boolean types",
    )
    digits = DIGITS.get(dtype.name)
    if high is None:
        if low == _SMALLEST:
            return 0, 1 << 64
        last = 1 << digits if digits else _limits(dtype)[1]
        _check_limits(dtype, low, last)
        return low, last - low + 1
    check(
        low < high,
        RuntimeError,
        f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
    )
    if digits:
        inner = _inner(dtype, low, high, digits)
        check(
            inner[0] < inner[1],
            RuntimeError,
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
            f"from={inner[0]} >= to={inner[1]}",
        )
        low, high = inner
    _check_limits(dtype, low, high - 1)
    return low, high - low


def _inner(dtype: DType, low: int, high: int, digits: int) -> tuple[int, int]:
    """The bounds, moved inwards by a step of the dtype where their neighbours round beyond them."""

    def rounded(number: int) -> int:
        value = float(dtype.numpy.type(number))
        return int(value) if math.isfinite(value) else number

    def step(number: int) -> int:
        return 1 << max(number.bit_length() - digits, 0)

    above, below = rounded(low + 1), rounded(high - 1)
    if above < low:
        low = above + step(abs(low + 1))
    if below >= high:
        high = below - step(abs(high - 1))
    return low, high


@functools.cache
def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of a dtype (whole ones, which the greatest floats are)."""
    if dtype is dtypes.bool_:
        return 0, 1
    info = dtypes.finfo(dtype) if dtype.is_floating_point else dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def _check_limits(dtype: DType, low: int, last: int) -> None:
    least, greatest = _limits(dtype)
    digits = DIGITS.get(dtype.name, 64)
    for name, bound in (("from", low), ("to - 1", last)):
        check(
            least <= bound <= greatest,
            RuntimeError,
            f"{name} is out of bounds for {C_NAMES.get(dtype.name, dtype.name)}",
        )
        if abs(bound) > 1 << digits:
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                "limitations "
                f"{C_NAMES[dtype.name]} can support discrete uniform distribution only within "
                "this range.",
                UserWarning,
                stacklevel=5,
            )


@composite(METHOD)
def random_(self: Tensor, *bounds: int, generator: Any = None, **named: int) -> Tensor:
    """Fill with whole numbers: `random_()`, `random_(to)`, `random_(from, to)` (without `to`).

    Without bounds: all numbers from 0 that the dtype holds exactly. `random_(from, None)` goes up
    to the last one.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(3).random_(10)
    tensor([4., 9., 3.])
    """
    if not bounds and not named:
        if not self.is_meta:
            check_dtype("random_kernel_cpu", self.dtype, dtypes.REAL_OR_BOOL)
        return draw_into(self, "random", generator, "integers_of_type")
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _bounds("random_", bounds, named, 0, None)
    low = integer("random_", "from", low)
    high = None if high is None else integer("random_", "to", high)
    start, span = (0, 1) if self.is_meta else whole_range(self.dtype, low, high)
    return draw_into(self, "random", generator, "integers", start, span)


# the others


def check_probability(p: float) -> None:
    """RuntimeError for a number that is no probability."""
    check(0 <= p <= 1, RuntimeError, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")


def check_probabilities(target: Tensor, p: Tensor) -> None:
    """NotImplementedError for the dtypes that have no draws with a probability for each element."""
    if not target.is_meta:
        check_dtype("bernoulli_tensor_cpu_self_", target.dtype, dtypes.REAL_OR_BOOL)
        check_dtype("bernoulli_tensor_cpu_p_", p.dtype, dtypes.FLOATING)


@composite(METHOD)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 with a probability `p`, a number or a tensor of one for each element, else 0.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(4).bernoulli_(0.25)
    tensor([0., 0., 0., 0.])
    """
    if not isinstance(p, Tensor):
        if not self.is_meta:
            check_probability(p)
            check_dtype("bernoulli_scalar_cpu_", self.dtype, dtypes.REAL_OR_BOOL)
        return draw_into(self, "bernoulli", generator, "bernoulli", float(p))
    find_device("bernoulli_", [("self", self), ("p_", p)], zero_dim_moves=False)
    check_probabilities(self, p)
    each = p.detach().expand(self.shape)
    return draw_into(self, "bernoulli", generator, "bernoulli_each", each)


@composite(METHOD)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers of the rate `lambd`: density λ·exp(−λx).

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).exponential_()
    tensor([3.5083, 1.2304])
    """
    if not self.is_meta:
        title = self.dtype.title
        check(
            self.dtype in dtypes.FLOATING,
            RuntimeError,
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            "floating point but "
            f"you specified {title}",
        )
    check(
        lambd > 0,
        RuntimeError,
        f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}",
    )
    return draw_into(self, "exponential", generator, "exponential", float(lambd))


@composite(METHOD)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the trials up to a first success of probability `p`: P(k) = (1−p)^(k−1)·p.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(3).geometric_(0.5)
    tensor([1., 1., 2.])
    """
    check(
        0 < p < 1,
        RuntimeError,
        f"geometric_ expects p to be in (0, 1), but got p={p:g}",
    )
    if not self.is_meta:
        check_dtype("geometric_cpu", self.dtype, dtypes.REAL)
    return draw_into(self, "geometric", generator, "geometric", float(p))


@composite(METHOD)
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None
) -> Tensor:
    """Fill with exp of normal numbers of the given mean and standard deviation.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).log_normal_(0, 1)
    tensor([4.6692, 0.7457])
    """
    check(std > 0, RuntimeError, f"log_normal_ expects std > 0.0, but found std={std:g}")
    if not self.is_meta:
        check_dtype("log_normal_cpu", self.dtype, dtypes.FLOATING)
    return draw_into(self, "log_normal", generator, "log_normal", float(mean), float(std))


@composite(METHOD)
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None
) -> Tensor:
    """Fill with Cauchy numbers: density σ / (π·(σ² + (x − median)²)).

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).cauchy_()
    tensor([10.5977,  0.7648])
    """
    check(sigma > 0.0, RuntimeError, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if not self.is_meta:
        check(
            self.dtype in dtypes.FLOATING,
            RuntimeError,
            "Cauchy distribution is a continuous probability distribution. dtype must be a "
            "floating point but you "
            f"specified {C_NAMES.get(self.dtype.name, self.dtype.name)}",
        )
    return draw_into(self, "cauchy", generator, "cauchy", float(median), float(sigma))
