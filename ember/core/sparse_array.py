"""Arrays of which only some elements are stored: indices and values, each an array of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from ember.core import modes
from ember.kernel.array import Array, Spec, Storage
from ember.layout import Shape

COO, CSR, CSC = "sparse_coo", "sparse_csr", "sparse_csc"
TITLES = {"strided": "Strided", COO: "Sparse", CSR: "SparseCsr", CSC: "SparseCsc"}
_specs: dict[Any, Spec] = {}


def _spec_of(shape: Shape, spec: Spec) -> Spec:
    """The one spec of sparse arrays with these parts: none that a dense array has, so that plans of
    dense ones are never found for it."""
    key = shape, spec.dtype, spec.device
    found = _specs.get(key)
    if found is None:
        if len(_specs) > 10_000:
            _specs.clear()
        found = _specs[key] = Spec(shape, (0,) * len(shape), spec.dtype, spec.device)
    return found


class SparseStorage(Storage):
    """What stands in the place of one block of memory, where there is none; it counts writes."""

    __slots__ = ()

    def bytes(self) -> NoReturn:
        """NotImplementedError: what asks for memory knows dense arrays only."""
        raise NotImplementedError(
            "Cannot access storage of SparseTensorImpl: a sparse tensor has indices and values "
            "and no memory of its shape; call .to_dense() first"
        )

    @property
    def nbytes(self) -> NoReturn:
        """NotImplementedError, as for `bytes`."""
        self.bytes()


class SparseArray(Array):
    """A sparse array: `parts` are (indices, values) of `sparse_coo`; of `sparse_csr` and
    `sparse_csc` (where each row or column begins, the columns or rows, values)."""

    __slots__ = ("coalesced", "kind", "parts")

    def __init__(self, kind: str, parts: tuple[Array, ...], shape: Shape, coalesced: bool):
        spec, storage = parts[-1].spec, SparseStorage(None, parts[-1].spec.device)
        super().__init__(storage, _spec_of(shape, spec))
        self.kind, self.parts, self.coalesced = kind, parts, coalesced
        if not modes.LAYOUTS[0]:
            modes.LAYOUTS[0] = 1
            modes.SPECIAL[0] += 1  # from now on ops look for arguments that are sparse

    @property
    def values(self) -> Array:
        """The elements that are stored."""
        return self.parts[-1]


def is_sparse(value: Any) -> bool:
    """Whether a value is a tensor of another layout than the dense one."""
    array = getattr(value, "_array", None)
    return array is not None and array.kind != "strided"


__all__ = ["COO", "CSC", "CSR", "TITLES", "SparseArray", "SparseStorage", "is_sparse"]
