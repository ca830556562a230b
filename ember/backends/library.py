"""The library kernels: what formulas do not express, each by name, with what it computes.

A backend brings a function for each (the CPU: backends/cpu/library.py); ops name them as
`Library.matmul`.
"""

from __future__ import annotations

from ember.backends.base import LibraryKernel as Kernel


class Library:
    """Names of library kernels, for `@library_op`; arguments are those of the op."""

    matmul = Kernel("a @ b over the last two dims, batch dims broadcast")
    concatenate = Kernel("arrays one after another along a dim")
    index = Kernel("x[indices] for a tuple of index arrays and Nones")
    index_put = Kernel("a copy with values written, or added, at index arrays")
    standard_gamma_slope = Kernel("how gamma numbers move with their shape")
    dirichlet_slope = Kernel("how Dirichlet numbers move with their concentration")
    convolution = Kernel("x (N, C, *spatial) correlated with w (O, C / groups, *kernel)")
    convolution_input = Kernel("the gradient of a convolution by its input, of a given shape")
    convolution_weight = Kernel("the gradient of a convolution by its weight, of a given shape")
    max_pool = Kernel("the greatest of each window, and its index in the plane laid out flat")
    max_pool_backward = Kernel("a gradient put back at such indices, added up")
    average_pool = Kernel("the sum of each window over its size, or over a divisor")
    average_pool_backward = Kernel("a gradient shared out over those windows")
    adaptive_average_pool = Kernel("the mean of windows that share the input out evenly")
    adaptive_average_pool_backward = Kernel("a gradient shared out over those windows")
    adaptive_max_pool = Kernel("the greatest of those windows, and its index in the flat plane")
    interpolate = Kernel("an input resized, by mode")
    interpolate_backward = Kernel("the adjoint of interpolate")
    gather = Kernel("x[i, index[i, j]] along a dim")
    scatter = Kernel("a copy with values at x[i, index[i, j]], combined as told")
    index_select = Kernel("slices along a dim by index")
    index_add = Kernel("a copy with slices added at an index")
    index_copy = Kernel("a copy with slices at an index")
    index_fill = Kernel("a copy with a number in slices at an index")
    index_reduce = Kernel("a copy with slices combined at an index")
    take = Kernel("elements of the flat array at an index")
    put = Kernel("a copy with elements at an index of the flat array")
    masked_select = Kernel("elements where a mask holds, in order")
    masked_scatter = Kernel("a copy with elements in order where a mask holds")
    nonzero = Kernel("the places of nonzero elements, a row each")
    argmax = Kernel("the index of the greatest element along a dim, the first of equal ones")
    argmin = Kernel("the index of the smallest element along a dim, the first of equal ones")
    cumsum = Kernel("sums of the elements up to each along a dim")
    cumprod = Kernel("products of the elements up to each along a dim")
    cummax = Kernel("the greatest element up to each along a dim, and the index of its last place")
    cummin = Kernel("the smallest element up to each along a dim, and the index of its last place")
    logcumsumexp = Kernel("log of the sums of exp of the elements up to each along a dim")
    flip = Kernel("the elements of dims in reverse order")
    roll = Kernel("the elements of dims moved on, those at the end to the front")
    tril = Kernel("matrices with zeros above a diagonal")
    triu = Kernel("matrices with zeros below a diagonal")
    write_view = Kernel("a copy with values written where a strided view of it lies")
    sort = Kernel("elements in order along a dim, and where they came from")
    topk = Kernel("the k greatest or smallest along a dim, and where they are")
    kthvalue = Kernel("the k-th smallest along a dim, and where it is")
    mode = Kernel("the most frequent along a dim, and where it is")
    median = Kernel("the lower median along a dim, and where it is")
    nanmedian = Kernel("the lower median of what is not NaN, and where it is")
    unique = Kernel("the different elements, with inverse and counts")
    unique_consecutive = Kernel("elements that differ from the one before, with inverse and counts")
    isin = Kernel("whether each element is among others")
    searchsorted = Kernel("where values would stand in an ordered sequence")
    bincount = Kernel("how often each integer stands")
    histc = Kernel("counts of elements in equal parts of a range")
