"""Transforms by their sums: lengths, dims, norms, precision, the two libraries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember.backends.cpu import fourier

SETTINGS = settings(deadline=None, max_examples=60, derandomize=True)
NORMS = [None, "backward", "forward", "ortho"]


@pytest.fixture(scope="module", params=["scipy.fft", "numpy.fft"])
def library(request):
    """Each library in turn."""
    module = pytest.importorskip(request.param)
    kept, fourier._library = fourier._library, lambda: module
    yield module
    fourier._library = kept


def cut(x, dim, length):
    """x cut or padded with zeros to a length along a dim."""
    moved = np.moveaxis(x, dim, -1)[..., :length]
    out = np.zeros((*moved.shape[:-1], length), x.dtype)
    out[..., : moved.shape[-1]] = moved
    return np.moveaxis(out, -1, dim)


def scale(length, norm, forward):
    if norm == "ortho":
        return length**-0.5
    return 1 / length if (norm == "forward") == forward else 1.0


def by_sum(x, length, dim, norm, forward=True):
    """The transform along one dim, as a matrix of roots of 1."""
    places = np.arange(length)
    roots = np.exp((-2j if forward else 2j) * np.pi * np.outer(places, places) / length)
    moved = np.moveaxis(cut(x, dim, length), dim, -1)
    return np.moveaxis(moved @ roots * scale(length, norm, forward), -1, dim)


def hermitian(half, length, dim):
    """The whole signal x[−j] = conj(x[j]) from its first half; the imaginary part of x[0] is not
    read."""
    half = np.moveaxis(cut(half, dim, length // 2 + 1), dim, -1)
    whole = np.zeros((*half.shape[:-1], length), np.complex128)
    for place in range(length):
        mirrored = place > length // 2
        whole[..., place] = half[..., length - place].conj() if mirrored else half[..., place]
    for place in {0, length // 2} if length % 2 == 0 else {0}:
        whole[..., place] = whole[..., place].real
    return np.moveaxis(whole, -1, dim)


def signal(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def close(found, expected, dtype):
    tolerance = 1e-4 if dtype in ("f4", "c8") else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert found.flags.c_contiguous


@SETTINGS
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from(["f4", "f8", "c8", "c16"]),
    st.one_of(st.none(), st.integers(1, 8)),
    st.sampled_from(NORMS),
    st.integers(0, 3),
)
def test_one_dim(library, relaid, sizes, dtype, n, norm, layout):
    x = relaid(signal(sizes, dtype), layout)
    dim = len(sizes) // 2 - len(sizes)
    length = n or sizes[dim]
    found = fourier.fft(x, n, dim, norm)
    assert found.dtype == np.result_type(dtype, np.complex64)
    close(found, by_sum(x, length, dim, norm), dtype)
    close(fourier.ifft(x, n, dim, norm), by_sum(x, length, dim, norm, False), dtype)
    if dtype[0] == "f":
        expected = by_sum(x, length, dim, norm)
        close(fourier.rfft(x, n, dim, norm), cut(expected, dim, length // 2 + 1), dtype)
        expected = by_sum(x, length, dim, norm, False)
        close(fourier.ihfft(x, n, dim, norm), cut(expected, dim, length // 2 + 1), dtype)
        return
    length = n or 2 * (sizes[dim] - 1)
    if length:
        whole = hermitian(x, length, dim)
        found = fourier.irfft(x, n, dim, norm)
        assert found.dtype == x.real.dtype
        close(found, by_sum(whole, length, dim, norm, False).real, dtype)
        close(fourier.hfft(x, n, dim, norm), by_sum(whole, length, dim, norm).real, dtype)


@SETTINGS
@given(
    st.permutations([0, 1, 2]),
    st.integers(1, 3),
    st.one_of(st.none(), st.lists(st.integers(1, 6), min_size=3, max_size=3)),
    st.sampled_from(NORMS),
)
def test_several_dims(library, order, count, lengths, norm):
    dims, lengths = order[:count], None if lengths is None else lengths[:count]
    x = signal((3, 4, 5), "f8")
    sizes = lengths or [x.shape[d] for d in dims]
    forward, backward = x, x
    for dim, length in zip(dims, sizes):
        forward = by_sum(forward, length, dim, norm)
        backward = by_sum(backward, length, dim, norm, False)
    half = sizes[-1] // 2 + 1
    close(fourier.fftn(x, lengths, dims, norm), forward, "f8")
    close(fourier.ifftn(x, lengths, dims, norm), backward, "f8")
    close(fourier.rfftn(x, lengths, dims, norm), cut(forward, dims[-1], half), "f8")
    close(fourier.ihfftn(x, lengths, dims, norm), cut(backward, dims[-1], half), "f8")
    # The inverses take the halves back.
    spectrum = cut(forward, dims[-1], half)
    shaped = x
    for dim, length in zip(dims, sizes):
        shaped = cut(shaped, dim, length)
    close(fourier.irfftn(spectrum, sizes, dims, norm), shaped, "f8")
    close(fourier.hfftn(cut(backward, dims[-1], half), sizes, dims, norm), shaped, "f8")


def test_lengths_of_nothing(library):
    for call in (
        lambda: fourier.fft(np.zeros(3), 0),
        lambda: fourier.fft(np.zeros(0)),
        lambda: fourier.irfft(np.zeros(1, complex)),
    ):
        with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
            call()
    assert fourier.rfft(np.zeros((0, 6), "f4")).shape == (0, 4)
    assert fourier.irfft(np.zeros((0, 4), "c8")).dtype == np.float32
    assert fourier.fftn(np.ones((2, 2)), None, ()).dtype == np.complex128


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    for number, norm in enumerate(NORMS * 3):
        x = signal((4, 5, 6), ["f4", "c16", "c8"][number % 3], number)
        t = torch.from_numpy(x)
        names = (
            ["fft", "ifft", "rfft", "ihfft"] if x.dtype.kind == "f" else ["fft", "irfft", "hfft"]
        )
        for name in names:
            n = [None, 3, 7][number % 3]
            expected = getattr(torch.fft, name)(t, n, 1, norm).resolve_conj().numpy()
            close(getattr(fourier, name)(x, n, 1, norm), expected, "f4")
            expected = getattr(torch.fft, name + "n")(t, None, (2, 0), norm).resolve_conj().numpy()
            close(getattr(fourier, name + "n")(x, None, (2, 0), norm), expected, "f4")
