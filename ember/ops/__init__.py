"""Every op of the public surface, by family. Names come from the registry; `ops.NAME` is
`torch.NAME`.

The families of `LATER` load at the first use of one of their names: networks, random numbers,
factorizations, transforms. A program that only moves tensors never pays for them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ember.core.registry import NAMESPACES, install_method, loaders
from ember.core.tensor import Tensor

FAMILIES = (
    "formats arithmetic rounding comparisons choices exponentials activations pointwise moves "
    "views splits strided shared_memory create likes ranges reduce rowwise joining indexing matmul "
    "legacy subclasses operators gathering index_slices complex_numbers"
).split()
LATER = (
    "special moments norms scans rearranged diagonals stacks copies products predicates resizing "
    "sorting exchange masks "
    "sparse_tensors "
    "einsum statistics random_fill random sampling padding rearrangement linear losses "
    "classification distances normalization convolution pooling adaptive_pooling unpooling "
    "interpolate grid_sampling embedding dropout attention multi_head_attention recurrent ctc "
    "gates other_signatures solving factorizations eigenvalues lu_factors reflections determinants "
    "least_squares matrix_functions fourier windows quantiles low_rank spectrograms "
    "quantizing segments eigenpairs grouped_products "
    "sparse_creation sparse_dispatch sparse_math sparse_reduce sparse_products foreach "
    "older_methods"
).split()
METHODS_OF_LATER = (
    "__dlpack__ __dlpack_device__ addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ apply_ "
    "argsort argwhere as_strided_scatter baddbmm baddbmm_ bincount cummax cummin cumprod "
    "cumprod_ cumsum cumsum_ diag diag_embed diagflat diagonal_scatter diff digamma digamma_ "
    "dist erf erf_ erfc erfc_ erfinv erfinv_ fill_diagonal_ flip fliplr flipud ger histc i0 i0_ "
    "igamma igamma_ igammac igammac_ index_put index_put_ inner is_distributed is_nonzero "
    "is_same_size kron kthvalue lgamma lgamma_ logcumsumexp logit logit_ map2_ map_ "
    "masked_scatter masked_scatter_ masked_select mean median mode msort mvlgamma mvlgamma_ "
    "nanmedian narrow_copy new_empty_strided nonzero norm outer polygamma polygamma_ put put_ "
    "renorm renorm_ repeat repeat_interleave resize resize_ resize_as resize_as_ roll rot90 "
    "select_scatter slice_scatter sort std take tile topk trace tril tril_ triu triu_ unique "
    "unique_consecutive var vdot xlogy xlogy_ "
    "_coalesced_ _indices _nnz _values ccol_indices coalesce col_indices crow_indices dense_dim "
    "indices is_coalesced resize_as_sparse_ row_indices smm sparse_dim sparse_mask sparse_resize_ "
    "sparse_resize_and_clear_ sspaddmm to_dense to_sparse to_sparse_bsc to_sparse_bsr "
    "to_sparse_coo to_sparse_csc to_sparse_csr values _dimI _dimV const_data_ptr dim_order eig "
    "lstsq module_load record_stream reinforce solve symeig align_as align_to refine_names rename "
    "rename_ to_mkldnn to_padded_tensor "
    "bernoulli bernoulli_ cauchy_ cholesky cholesky_inverse cholesky_solve corrcoef cov cross det "
    "exponential_ geometric_ geqrf histogram inverse istft log_normal_ logdet lu lu_solve "
    "matrix_exp matrix_power multinomial nanquantile nonzero_static normal_ orgqr ormqr pinverse "
    "prelu qr quantile random_ slogdet stft svd triangular_solve uniform_"
).split()


def load_rest() -> None:
    """Load the families of `LATER`; once."""
    if loaders:
        loaders.clear()
        _load(LATER)


def _method_to_come(name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        load_rest()
        return getattr(self, name)(*args, **kwargs)

    method.__dict__["asks"] = True  # the method itself does
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}`, loaded at its first use."
    return method


def _load(families: list[str]) -> None:
    for family in families:
        importlib.import_module(f"ember.ops.{family}")


_load(FAMILIES)
for _name in METHODS_OF_LATER:
    install_method(_name, _method_to_come(_name))
loaders.append(load_rest)


def __getattr__(name: str) -> Any:
    """`ops.NAME` is `torch.NAME`; any other name is a namespace of operators, as in
    `torch.ops.aten.add`."""
    if name not in ("aten", "prims", "load_library", "loaded_libraries"):
        packets = sys.modules.get("ember.ops.packets")
        if packets is None or name not in packets._namespaces:
            try:
                return NAMESPACES["torch"][name]
            except KeyError:
                pass
    if name.startswith("__") or os.path.exists(f"{__path__[0]}/{name}.py"):
        raise AttributeError(f"module 'ember.ops' has no op {name!r}")
    importlib.import_module("ember.ops.aten_forms")
    packets = importlib.import_module("ember.ops.packets")
    return getattr(packets, name) if name.startswith("load") else packets.namespace(name)
