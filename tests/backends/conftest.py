"""What the tests of backends share."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def ignored_flags():
    """Floating-point flags ignored, as the backend has them when it calls its kernels."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="session")
def relaid():
    """A function that gives an array another layout in memory: 0 as it is, 1 Fortran, 2 every
    other, 3 backwards."""

    def relay(array, layout):
        if array.ndim == 0 or layout == 0:
            return array
        if layout == 1:
            return np.asfortranarray(array)
        if layout == 2:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        return np.ascontiguousarray(array[::-1])[::-1]

    return relay


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a module's compiled kernels of emulated GPUs are kept."""
    return tmp_path_factory.mktemp("kernels")
