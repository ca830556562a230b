"""What PyTorch allows of `out=`, by the name of the function: elementwise ones, sums and joined
tensors may be stored in another dtype and must not lie partly over what they read; the others are
here."""

# The dtype of the result and no other. Of `max` and `min` only those with places.
EXACT = frozenset(
    "addbmm addmm addmv amax amin aminmax argmax argmin argsort baddbmm bmm bucketize complex "
    "cross cummax cummin det diag diagonal_copy dot eigh eigvalsh frexp gather histc index_add "
    "index_copy index_reduce index_select inv inv_ex kthvalue ldl_factor ldl_factor_ex ldl_solve "
    "log_softmax logcumsumexp lu_factor lu_factor_ex lu_solve masked_select matmul matrix_norm max "
    "median min mm mode msort multi_dot mv nanmedian nanquantile narrow_copy nonzero norm ormqr "
    "polar qr quantile renorm scatter scatter_add scatter_reduce searchsorted slogdet softmax "
    "solve solve_ex solve_triangular sort svd svdvals take take_along_dim tensordot topk "
    "triangular_solve tril triu vdot vecdot vector_norm where".split()
)
# May be written over what they read, which is read to the end first.
FREE = frozenset(
    "all amax amin any argmax argmin bmm cholesky cholesky_ex cholesky_inverse cholesky_solve cond "
    "cummax cummin det diag diagonal_copy dot eigh eigvalsh geqrf householder_product inv inv_ex "
    "ldl_factor ldl_factor_ex ldl_solve log_softmax logsumexp lstsq lu lu_factor lu_factor_ex "
    "matmul matrix_norm mean mm multi_dot multigammaln mv mvlgamma nanmean nanquantile nansum norm "
    "ormqr pinv prod qr quantile slogdet softmax solve solve_ex std sum svdvals tensordot "
    "tensorsolve tril triu var vdot vecdot vector_norm".split()
)
# Must not touch what they read, not even where the two are one.
APART = frozenset(
    "cat column_stack cross dstack gather hstack index_select kthvalue masked_select row_stack "
    "stack take take_along_dim vstack".split()
)
# The same but for the first argument, of which they make a changed copy.
APART_BUT_FIRST = frozenset("index_add index_copy scatter scatter_add scatter_reduce".split())
# Refuse a target whose elements share memory even if it would get new memory.
WHOLE = frozenset(["index_select"])
# Compute in the dtype of `out`.
FACTORIES = frozenset("arange empty eye full linspace logspace ones range zeros".split())
