"""Factorizations by what they promise: products that give the matrix back, signs, info, errors."""

import numpy as np
import pytest

from ember.backends.cpu import linear_algebra, triangular
from ember.backends.cpu.linear_algebra import (
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    geqrf,
    inv,
    lstsq,
    matrix_exp,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)
from ember.backends.cpu.triangular import (
    householder_product,
    lu_factor,
    lu_permutation,
    lu_solve,
    ormqr,
    triangular_solve,
)
from ember.errors import LinAlgError

pytestmark = pytest.mark.usefixtures("ignored_flags")
DTYPES = ["f4", "f8", "c8", "c16"]
BATCHES = [(), (3,), (2, 0), (2, 3)]


def matrices(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def close(found, expected, dtype):
    tolerance = 1e-3 if dtype in ("f4", "c8") else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def dense(*arrays):
    return all(isinstance(a, np.ndarray) and a.flags.c_contiguous for a in arrays)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_square(batch, dtype, size):
    a = matrices((*batch, size, size), dtype) + 2 * np.eye(size, dtype=dtype)
    a = np.swapaxes(a, -1, -2)  # not contiguous
    b = matrices((*batch, size, 2), dtype, 1)
    h = np.matmul(a, adjoint(a)) + np.eye(size, dtype=dtype)
    for upper in (False, True):
        factor, info = cholesky(h, upper)
        product = (
            np.matmul(adjoint(factor), factor) if upper else np.matmul(factor, adjoint(factor))
        )
        close(product, h, dtype)
        assert info.shape == batch
        assert info.dtype == np.int32
        assert not info.any()
        close(np.matmul(h, cholesky_solve(b, factor, upper)), b, dtype)
        close(
            np.matmul(h, cholesky_inverse(factor, upper)),
            np.broadcast_to(np.eye(size), h.shape),
            dtype,
        )
        values, vectors = eigh(h, upper)
        close(np.matmul(h, vectors), vectors * values[..., None, :], dtype)
        close(eigvalsh(h, upper), values, dtype)
        assert dense(factor, values, vectors)
        assert values.dtype == a.real.dtype
    inverse, info = inv(a)
    close(np.matmul(a, inverse), np.broadcast_to(np.eye(size), a.shape), dtype)
    close(np.matmul(a, solve(a, b)[0]), b, dtype)
    close(np.matmul(solve(a, adjoint(b), False)[0], a), adjoint(b), dtype)
    sign, logarithm = slogdet(a)
    close(sign * np.exp(logarithm), det(a), dtype)
    values, vectors = eig(a)
    close(np.matmul(a, vectors), vectors * values[..., None, :], dtype)
    assert values.dtype == vectors.dtype == np.result_type(dtype, np.complex64)
    close(np.sort_complex(eigvals(a)), np.sort_complex(values), dtype)
    assert dense(inverse, sign, logarithm, det(a), values, vectors)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4), (3, 0)])
def test_rectangular(batch, dtype, rows, columns):
    a = matrices((*batch, rows, columns), dtype)
    least = min(rows, columns)
    for mode, width in (("reduced", least), ("complete", rows)):
        q, r = qr(a, mode)
        assert q.shape == (*batch, rows, width)
        close(np.matmul(q, r), a, dtype)
        close(
            np.matmul(adjoint(q), q), np.broadcast_to(np.eye(width), (*batch, width, width)), dtype
        )
    none, r = qr(a, "r")
    assert none.shape == (0,)
    packed, tau = geqrf(a)
    close(np.triu(packed[..., :least, :]), r, dtype)
    if rows >= columns:
        close(householder_product(packed, tau), qr(a)[0], dtype)
    whole = qr(a, "complete")[0]
    b = matrices((*batch, rows, 2), dtype, 2)
    close(ormqr(packed, tau, b), np.matmul(whole, b), dtype)
    close(ormqr(packed, tau, b, True, True), np.matmul(adjoint(whole), b), dtype)
    close(ormqr(packed, tau, adjoint(b), False), np.matmul(adjoint(b), whole), dtype)
    u, s, vh = svd(a, False)
    close(np.matmul(u * s[..., None, :], vh), a, dtype)
    assert [m.shape[-2:] for m in svd(a)[::2]] == [(rows, rows), (columns, columns)]
    close(svdvals(a), s, dtype)
    assert (np.diff(s) <= 0).all()
    assert dense(q, r, packed, tau, u, s, vh)


@pytest.mark.parametrize(("block", "least"), [(1, 99), (3, 99), (32, 99), (32, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_systems_and_lu(monkeypatch, dtype, block, least):
    monkeypatch.setattr(triangular, "BLOCK", block)
    monkeypatch.setattr(triangular, "LEAST_LAPACK", least)
    a = matrices((2, 1, 7, 7), dtype) / 3 + np.eye(7, dtype=dtype)
    b = matrices((4, 7, 3), dtype, 1)
    for upper in (False, True):
        for ones in (False, True):
            t = np.triu(a) if upper else np.tril(a)
            t = np.where(np.eye(7, dtype=bool), 1, t) if ones else t
            x = triangular_solve(a, b, upper, True, ones)
            assert x.shape == (2, 4, 7, 3)
            close(np.matmul(t, x), np.broadcast_to(b, x.shape), dtype)
            y = triangular_solve(a, adjoint(b), upper, False, ones)
            close(np.matmul(y, t), np.broadcast_to(adjoint(b), y.shape), dtype)
    for rows, columns in ((7, 7), (7, 4), (4, 7)):
        m = matrices((3, rows, columns), dtype)
        lu, pivots, info = lu_factor(m)
        least = min(rows, columns)
        low = np.tril(lu[..., :least], -1) + np.eye(rows, least, dtype=dtype)
        order = lu_permutation(pivots, rows)
        expected = np.take_along_axis(m, order[..., None], -2)
        close(np.matmul(low, np.triu(lu[..., :least, :])), expected, dtype)
        assert (np.abs(low) <= (1.001 if dtype[0] == "f" else 1.42)).all()  # partial pivoting
        assert (pivots.dtype, info.tolist()) == (np.int32, [0, 0, 0])
    m = matrices((3, 7, 7), dtype)
    lu, pivots, _ = lu_factor(m)
    b = matrices((3, 7, 2), dtype, 1)
    close(np.matmul(m, lu_solve(lu, pivots, b)), b, dtype)
    close(np.matmul(adjoint(m), lu_solve(lu, pivots, b, True, True)), b, dtype)
    close(np.matmul(lu_solve(lu, pivots, adjoint(b), False), m), adjoint(b), dtype)
    close(np.matmul(lu_solve(lu, pivots, adjoint(b), False, True), adjoint(m)), adjoint(b), dtype)


def test_recorded_signs_and_pivots():
    # Recorded from PyTorch.
    packed, tau = geqrf(np.array([[1.0, 2], [3, 4], [5, 6]]))
    np.testing.assert_allclose(
        packed, [[-5.9161, -7.4374], [0.4338, 0.8281], [0.7230, 0.8926]], atol=1e-4
    )
    np.testing.assert_allclose(tau, [1.1690, 1.1131], atol=1e-4)
    lu, pivots, info = lu_factor(np.array([[[1.0, 2], [2, 4]], [[0, 0], [0, 0]]]))
    assert lu.tolist() == [[[2, 4], [0.5, 0]], [[0, 0], [0, 0]]]
    assert (pivots.tolist(), info.tolist()) == ([[2, 2], [1, 2]], [2, 1])
    factor, info = cholesky(np.array([np.eye(2), [[1, 2], [2, 1]], -np.eye(2)]))
    assert info.tolist() == [0, 2, 1]
    assert factor[0].tolist() == [[1, 0], [0, 1]]
    assert factor[1, :, 0].tolist() == [1, 0] or np.isfinite(factor[1, 0, 0])


def test_singular_matrices_spoil_only_themselves():
    stack = np.array([np.eye(2), [[1, 2], [2, 4]]])
    inverse, info = inv(stack)
    assert info.tolist() == [0, 2]
    assert inverse[0].tolist() == [[1, 0], [0, 1]]
    assert np.isinf(inverse[1]).all()
    x, info = solve(stack, np.ones((2, 1)))
    assert info.tolist() == [0, 2]
    assert x[0].tolist() == [[1], [1]]
    # Recorded from PyTorch: a zero on the diagonal divides.
    x = triangular_solve(np.array([[1.0, 2], [0, 0]]), np.ones((2, 1)), True)
    assert x.tolist() == [[-np.inf], [np.inf]]


def test_no_answer():
    bad = np.array([[np.nan, 1], [1, 1]])
    with pytest.raises(LinAlgError, match="linalg.svd: The algorithm failed to converge"):
        svd(bad)
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        eig(bad)
    assert np.isnan(matrix_exp(bad)).all()


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver):
    # Recorded from PyTorch.
    a = np.arange(6.0).reshape(3, 2) ** 2
    x, residuals, rank, values = lstsq(a, np.ones((3, 1)), None, driver)
    np.testing.assert_allclose(x, [[-0.5072], [0.3623]], atol=1e-4)
    np.testing.assert_allclose(residuals, [] if driver == "gelsy" else [0.4638], atol=1e-4)
    assert rank.tolist() == ([] if driver == "gels" else 2)
    has_values = driver in ("gelsd", "gelss")
    np.testing.assert_allclose(values, [31.2528, 1.5035] if has_values else [], atol=1e-4)
    x, residuals, rank, values = lstsq(a.reshape(2, 3), np.ones((2, 1)), None, driver)
    np.testing.assert_allclose(x, [[-0.3075], [-0.2547], [0.3137]], atol=1e-4)
    assert residuals.size == 0
    flat = np.ones((3, 2))
    if driver == "gels":
        with pytest.raises(LinAlgError, match="does not have full rank"):
            lstsq(flat, np.ones((3, 1)), None, driver)
    else:
        x, residuals, rank, _ = lstsq(flat, np.array([[1.0], [2], [3]]), None, driver)
        np.testing.assert_allclose(x, [[1], [1]])
        assert rank == 1
        assert residuals.size == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponential(dtype):
    a = np.stack([matrices((4, 4), dtype, 3) * scale for scale in (0.01, 1, 6)])
    found = matrix_exp(a)
    for matrix, result in zip(a.astype(np.complex128), found):
        total, term = np.eye(4, dtype=complex), np.eye(4, dtype=complex)
        for step in range(1, 120):
            term = term @ matrix / step
            total = total + term
        scale = np.abs(total).max()
        close(result / scale, total / scale, dtype)
    assert found.dtype == a.dtype
    assert matrix_exp(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    turn = np.array([[0, -np.pi], [np.pi, 0]])
    np.testing.assert_allclose(matrix_exp(turn), -np.eye(2), atol=1e-14)


@pytest.mark.oracle
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    for dtype in DTYPES:
        a = matrices((2, 5, 5), dtype)
        t = torch.from_numpy(a)
        for found, expected in zip(lu_factor(a), torch.linalg.lu_factor_ex(t)):
            close(found, expected.numpy(), dtype)
        for found, expected in zip(qr(a), torch.linalg.qr(t)):
            close(found, expected.numpy(), dtype)
        for found, expected in zip(slogdet(a), torch.linalg.slogdet(t)):
            close(found, expected.numpy(), dtype)
        close(linear_algebra.matrix_exp(a), torch.linalg.matrix_exp(t).numpy(), dtype)
        b = matrices((2, 5, 3), dtype, 1)
        for driver in ("gels", "gelsy", "gelsd", "gelss"):
            for found, expected in zip(
                lstsq(b, a, None, driver), torch.linalg.lstsq(torch.from_numpy(b), t, driver=driver)
            ):
                assert found.shape == tuple(expected.shape)
                close(found, expected.numpy(), dtype)
