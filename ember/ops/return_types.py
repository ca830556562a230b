"""The named tuples that ops with several results return: `torch.return_types`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_FIELDS = {
    "values indices": "max min median nanmedian mode kthvalue sort topk cummax cummin",
    "min max": "aminmax",
    "mantissa exponent": "frexp",
    "hist bin_edges": "histogram histogramdd",
    "a tau": "geqrf",
    "Q R": "qr linalg_qr",
    "U S V": "svd",
    "U S Vh": "linalg_svd",
    "sign logabsdet": "slogdet linalg_slogdet",
    "eigenvalues eigenvectors": "linalg_eig linalg_eigh",
    "L info": "linalg_cholesky_ex",
    "inverse info": "linalg_inv_ex",
    "result info": "linalg_solve_ex",
    "LD pivots": "linalg_ldl_factor",
    "LD pivots info": "linalg_ldl_factor_ex",
    "LU pivots": "linalg_lu_factor",
    "LU pivots info": "linalg_lu_factor_ex",
    "P L U": "linalg_lu lu_unpack",
    "solution residuals rank singular_values": "linalg_lstsq",
    "solution cloned_coefficient": "triangular_solve",
}


def _made(name: str, fields: str) -> Any:
    base: Any = namedtuple(name, fields)

    class Result(base):
        """Results by name and by position."""

        __slots__ = ()

        def __new__(cls, *values: Any, **named: Any) -> Any:
            if len(values) == 1 and not named and isinstance(values[0], (tuple, list)):
                values = tuple(values[0])
            return base.__new__(cls, *values, **named)

        def __repr__(self) -> str:
            lines = ",\n".join(f"{f}={v!r}" for f, v in zip(self._fields, self, strict=True))
            return f"torch.return_types.{type(self).__name__}(\n{lines})"

        def __reduce__(self) -> Any:
            return _rebuilt, (type(self).__name__, tuple(self))

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = "torch.return_types"
    return Result


def _rebuilt(name: str, values: tuple[Any, ...]) -> Any:
    return __getattr__(name)(*values)


_FIELDS_OF = {name: fields for fields, names in _FIELDS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The type of that name, made when it is first asked for: most programs need few of them."""
    if name == "all_return_types":
        return [globals().get(known) or __getattr__(known) for known in _FIELDS_OF]
    if name not in _FIELDS_OF:
        raise AttributeError(f"module 'torch.return_types' has no type {name!r}")
    found = globals()[name] = globals().get(name) or _made(name, _FIELDS_OF[name])
    return found


def __dir__() -> list[str]:
    return sorted(_FIELDS_OF)
