"""The library kernels: what formulas do not express, each by name, with what it computes.

A backend brings a function for each (the CPU: backends/cpu/library.py); ops name them as `Library.matmul`.
"""

from __future__ import annotations

from ember.backends.base import LibraryKernel as Kernel


class Library:
    """Names of library kernels, for `@library_op`; arguments are those of the op."""

    matmul = Kernel("a @ b over the last two dims, batch dims broadcast")
    concatenate = Kernel("arrays one after another along a dim")
    index = Kernel("x[indices] for a tuple of index arrays and Nones")
    index_put = Kernel("a copy with values written, or added, at index arrays")
