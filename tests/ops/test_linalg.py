"""torch.linalg against NumPy and SciPy, with its derivatives, errors and forms under torch."""

import numpy as np
import pytest
import scipy.linalg

import ember as torch
from ember.autograd import gradcheck, gradgradcheck
from ember.errors import LinAlgError

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
BATCHES = [(), (2,), (2, 0), (2, 3)]


def matrices(*shape, dtype=torch.float64, seed=0):
    """Random matrices: (a tensor, its array)."""
    random = np.random.default_rng(seed)
    made = random.standard_normal(shape)
    if dtype.is_complex:
        made = made + 1j * random.standard_normal(shape)
    made = made.astype(dtype.numpy)
    return torch.tensor(made), made


def definite(*shape, **options):
    made = matrices(*shape, **options)[1]
    made = made @ np.swapaxes(made.conj(), -1, -2) + np.eye(shape[-1], dtype=made.dtype)
    return torch.tensor(made), made


def near(result, expected, dtype=torch.float64):
    precise = dtype in (torch.float64, torch.complex128)
    expected = np.asarray(expected)
    assert tuple(result.shape) == expected.shape
    tolerance = 1e-9 if precise else 2e-3
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def leaf(*shape, complex_=False, make=matrices, seed=0):
    dtype = torch.complex128 if complex_ else torch.float64
    return make(*shape, dtype=dtype, seed=seed)[0].requires_grad_()


def checked(function, *inputs):
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
class TestAgainstNumpy:
    def test_inverse_solve_and_determinant(self, dtype, batch):
        a, array = matrices(*batch, 4, 4, dtype=dtype)
        b, right = matrices(*batch, 4, 2, dtype=dtype, seed=1)
        near(torch.linalg.inv(a), np.linalg.inv(array), dtype)
        near(torch.linalg.solve(a, b), np.linalg.solve(array, right), dtype)
        near(torch.linalg.det(a), np.linalg.det(array), dtype)
        sign, logarithm = torch.linalg.slogdet(a)
        near(sign * logarithm.exp(), np.linalg.det(array), dtype)
        assert sign.dtype is dtype and logarithm.dtype is dtype.to_real()

    def test_factors_multiply_back(self, dtype, batch):
        a, array = matrices(*batch, 3, 4, dtype=dtype)
        q, r = torch.linalg.qr(a)
        near(q @ r, array, dtype)
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        near((u * s.unsqueeze(-2)) @ vh, array, dtype)
        near(torch.linalg.svdvals(a), np.linalg.svd(array, compute_uv=False), dtype)
        p, lower, upper = torch.linalg.lu(a)
        near(p @ lower @ upper, array, dtype)
        positive, array = definite(*batch, 4, 4, dtype=dtype)
        factor = torch.linalg.cholesky(positive)
        near(factor @ factor.mH, array, dtype)
        near(torch.linalg.cholesky(positive, upper=True), factor.mH.numpy(), dtype)

    def test_eigenvalues(self, dtype, batch):
        a, array = definite(*batch, 4, 4, dtype=dtype)
        values, vectors = torch.linalg.eigh(a)
        near(values, np.linalg.eigvalsh(array), dtype)
        near((vectors * values.unsqueeze(-2)) @ vectors.mH, array, dtype)
        near(torch.linalg.eigvalsh(a), np.linalg.eigvalsh(array), dtype)
        a, array = matrices(*batch, 4, 4, dtype=dtype)
        values, vectors = torch.linalg.eig(a)
        assert values.is_complex() and vectors.is_complex()
        near(a.to(vectors.dtype) @ vectors, (vectors * values.unsqueeze(-2)).numpy(), dtype)

    def test_pseudo_inverse_and_rank(self, dtype, batch):
        a, array = matrices(*batch, 5, 3, dtype=dtype)
        near(torch.linalg.pinv(a), np.linalg.pinv(array), dtype)
        assert (torch.linalg.matrix_rank(a) == 3).all()
        low = a @ torch.ones(3, 2, dtype=dtype)
        assert (torch.linalg.matrix_rank(low) == 1).all()


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
class TestDerivatives:
    def test_systems(self, complex_):
        a, b = leaf(3, 3, complex_=complex_), leaf(3, 2, complex_=complex_, seed=1)
        checked(torch.linalg.inv, a)
        checked(torch.linalg.solve, a, b)
        checked(lambda a, b: torch.linalg.solve(a, b.mT, left=False), a, b)
        checked(lambda a, b: torch.linalg.solve(a, b[:, 0]), a, b)
        checked(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), a, b)
        checked(
            lambda a, b: torch.linalg.solve_triangular(
                a, b.mT, upper=False, left=False, unitriangular=True
            ),
            a,
            b,
        )

    def test_cholesky(self, complex_):
        a = leaf(3, 3, complex_=complex_)

        def positive(a):
            return a @ a.mH + torch.eye(3, dtype=a.dtype)

        for upper in (False, True):
            checked(lambda a, u=upper: torch.linalg.cholesky(positive(a), upper=u), a)
        b = leaf(3, 2, complex_=complex_, seed=1)
        checked(lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(positive(a))), a, b)
        checked(lambda a: torch.cholesky_inverse(torch.linalg.cholesky(positive(a))), a)

    def test_qr_and_svd(self, complex_):
        for shape in ((4, 3), (3, 3), (3, 5)):
            a = leaf(*shape, complex_=complex_)
            checked(lambda a: tuple(torch.linalg.qr(a)), a)
            checked(torch.linalg.svdvals, a)

            def shared(a):  # what does not depend on phases
                u, s, vh = torch.linalg.svd(a, full_matrices=False)
                return u @ vh, (u.abs(), s), vh.abs()

            checked(lambda a, f=shared: f(a)[0], a)
            checked(lambda a, f=shared: f(a)[1], a)
            checked(lambda a, f=shared: f(a)[2], a)

    def test_eigenvalues(self, complex_):
        a = leaf(3, 3, complex_=complex_)
        checked(lambda a: torch.linalg.eigvalsh(a + a.mH), a)
        checked(lambda a: torch.linalg.eigh(a + a.mH)[1].abs(), a)
        checked(torch.linalg.eigvals, a)
        checked(lambda a: torch.linalg.eig(a)[1].abs(), a)

    def test_lu(self, complex_):
        b = leaf(3, 2, complex_=complex_, seed=1)
        for shape in ((3, 3), (4, 3), (3, 5)):
            a = leaf(*shape, complex_=complex_)
            checked(lambda a: torch.linalg.lu(a)[1:], a)
            checked(lambda a: torch.linalg.lu_factor(a)[0], a)
        a = leaf(3, 3, complex_=complex_)
        for left in (False, True):
            for adjoint in (False, True):

                def solved(a, b, left=left, adjoint=adjoint):
                    lu, pivots = torch.linalg.lu_factor(a)
                    b = b if left else b.mT
                    return torch.linalg.lu_solve(lu, pivots, b, left=left, adjoint=adjoint)

                checked(solved, a, b)

    def test_determinants(self, complex_):
        a = leaf(3, 3, complex_=complex_)
        checked(torch.linalg.det, a)
        checked(lambda a: tuple(torch.linalg.slogdet(a)), a)

    def test_pseudo_inverse_and_least_squares(self, complex_):
        a, b = leaf(4, 3, complex_=complex_), leaf(4, 2, complex_=complex_, seed=1)
        checked(torch.linalg.pinv, a)
        checked(lambda a: torch.linalg.pinv(a.mH), a)
        checked(lambda a, b: torch.linalg.lstsq(a, b)[0], a, b)
        checked(lambda a, b: torch.linalg.lstsq(a, b, driver="gels")[1], a, b)

    def test_functions_of_matrices(self, complex_):
        a = leaf(3, 3, complex_=complex_)
        checked(torch.linalg.matrix_exp, a)
        checked(lambda a: torch.linalg.matrix_power(a, 3), a)
        checked(lambda a: torch.linalg.matrix_power(a, -2), a)
        for order in ("fro", "nuc", 2, -2, 1, float("inf")):
            checked(lambda a, o=order: torch.linalg.matrix_norm(a, o), a)
        checked(torch.linalg.cond, a)
        checked(lambda a: torch.linalg.cond(a, "fro"), a)

    def test_reflectors(self, complex_):
        a, tau = leaf(4, 3, complex_=complex_), leaf(3, complex_=complex_, seed=1)
        other = leaf(4, 4, complex_=complex_, seed=2)
        checked(torch.linalg.householder_product, a, tau)
        for left in (False, True):
            for transpose in (False, True):
                checked(
                    lambda a, t, o, x=left, y=transpose: torch.ormqr(a, t, o, x, y), a, tau, other
                )


class TestDetailsOfResults:
    def test_determinant_of_a_singular_matrix_has_its_cofactors(self):
        a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
        torch.linalg.det(a).backward()
        near(a.grad, [[4.0, -2.0], [-2.0, 1.0]])

    def test_gradient_of_cholesky_is_symmetric(self):
        a = leaf(3, 3, make=definite)
        torch.linalg.cholesky(a).sum().backward()
        near(a.grad, a.grad.mT.numpy())

    def test_reflectors_without_gradients_use_the_kernel(self):
        a = matrices(5, 3)[0]
        packed, tau = torch.geqrf(a)
        q = torch.linalg.householder_product(packed, tau)
        near(q @ packed[:3].triu(), a.numpy())
        with_gradient = torch.linalg.householder_product(packed.requires_grad_(), tau)
        near(with_gradient, q.numpy())
        b = matrices(5, 2, seed=1)[0]
        full = torch.linalg.qr(a, mode="complete")[0]
        near(torch.ormqr(packed.detach(), tau, b, True, True)[:3], (full.mT @ b)[:3].numpy())

    @pytest.mark.parametrize("hermitian", [False, True])
    def test_ldl(self, hermitian):
        a = matrices(6, 6, dtype=torch.complex128 if hermitian else torch.float64)[0]
        a = (a + (a.mH if hermitian else a.mT)) * (1 - torch.eye(6))  # no pivot of one row fits
        b = matrices(6, 2, dtype=a.dtype, seed=1)[0]
        ld, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
        assert pivots.dtype is torch.int32 and (pivots < 0).any()
        x = torch.linalg.ldl_solve(ld, pivots, b, hermitian=hermitian)
        near(a @ x, b.numpy())

    def test_exponential(self):
        a, array = matrices(3, 5, 5)
        near(torch.matrix_exp(a), np.stack([scipy.linalg.expm(m) for m in array]))

    def test_norms(self):
        a, array = matrices(4, 3)
        for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
            near(torch.linalg.matrix_norm(a, order), np.linalg.norm(array, order))
            near(torch.linalg.norm(a, order), np.linalg.norm(array, order))
        near(torch.linalg.norm(a), np.linalg.norm(array))
        near(torch.linalg.norm(a, 3, dim=1), np.linalg.norm(array, 3, axis=1))
        near(torch.linalg.norm(a, 1, dim=(1, 0), keepdim=True), [[np.abs(array).sum(1).max()]])
        near(torch.norm(a, "nuc"), np.linalg.norm(array, "nuc"))
        assert torch.linalg.matrix_norm(torch.zeros(0, 5), float("inf")).item() == 0

    def test_least_squares_drivers(self):
        a, array = matrices(5, 3)
        b, right = matrices(5, 2, seed=1)
        expected = np.linalg.lstsq(array, right, rcond=None)
        for driver in (None, "gels", "gelsy", "gelsd", "gelss"):
            solution, residuals, rank, values = torch.linalg.lstsq(a, b, driver=driver)
            near(solution, expected[0])
            assert residuals.numel() == (0 if driver in (None, "gelsy") else 2)
            assert rank.numel() == (driver != "gels")
            assert values.numel() == (3 if driver in ("gelsd", "gelss") else 0)

    def test_products(self):
        a, b, c = (matrices(*s, seed=i)[0] for i, s in enumerate(((3, 4), (4, 2), (2, 5))))
        near(torch.linalg.multi_dot([a, b, c]), (a @ b @ c).numpy())
        row, column = matrices(3)[0], matrices(5)[0]
        near(torch.linalg.multi_dot([row, a, b, c, column]), (row @ a @ b @ c @ column).numpy())
        x, y = matrices(4, 3)[1], matrices(1, 3, seed=1)[1]
        crossed = torch.linalg.cross(torch.tensor(x), torch.tensor(y))
        near(crossed, np.cross(x, y))
        near(torch.linalg.vecdot(torch.tensor(x), torch.tensor(y)), (x * y).sum(-1))

    def test_tensors_as_matrices(self):
        a, array = matrices(4, 6, 8, 3)
        near(torch.linalg.tensorinv(a), np.linalg.tensorinv(array))
        b, right = matrices(4, 6, seed=1)
        near(torch.linalg.tensorsolve(a, b), np.linalg.tensorsolve(array, right))

    @pytest.mark.filterwarnings("ignore:torch.*is deprecated in favor of torch.linalg")
    def test_forms_under_torch(self):
        a, array = matrices(4, 3)
        u, s, v = torch.svd(a)
        near((u * s) @ v.mT, array)
        q, r = torch.qr(a, some=False)
        assert q.shape == (4, 4) and r.shape == (4, 3)
        square, array = definite(3, 3)
        b = matrices(3, 2)[0]
        near(square.inverse(), np.linalg.inv(array))
        near(square.logdet(), np.log(np.linalg.det(array)))
        lu, pivots, info = torch.lu(square, get_infos=True)
        p, lower, upper = torch.lu_unpack(lu, pivots)
        near(p @ lower @ upper, array)
        assert info.item() == 0
        near(b.lu_solve(lu, pivots), np.linalg.solve(array, b.numpy()))
        near(square.pinverse(), np.linalg.inv(array))
        solution, copy = torch.triangular_solve(b, square, transpose=True)
        near(square.triu().mT @ solution, b.numpy())
        near(copy, array)

    def test_low_rank(self):
        torch.manual_seed(0)
        a = matrices(8, 2)[0] @ matrices(2, 6)[0]
        for u, s, v in (torch.svd_lowrank(a, q=2), torch.pca_lowrank(a, q=2, center=False)):
            near((u * s) @ v.mT, a.numpy())

    def test_diagonal_is_a_view(self):
        a = torch.zeros(2, 3, 3)
        torch.linalg.diagonal(a).fill_(1)
        assert a.sum().item() == 6

    def test_out(self):
        a, array = matrices(3, 3)
        out = torch.empty(0, dtype=torch.float64)
        assert torch.linalg.inv(a, out=out) is out
        near(out, np.linalg.inv(array))
        q, r = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        made = torch.linalg.qr(a, out=(q, r))
        assert made.Q is q and made.R is r


class TestErrors:
    def test_singular_and_indefinite(self):
        singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
        stack = torch.stack([torch.eye(2), singular])
        with pytest.raises(LinAlgError, match="The diagonal element 2 is zero"):
            torch.linalg.inv(singular)
        with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\):"):
            torch.linalg.inv(stack)
        assert torch.linalg.inv_ex(stack).info.tolist() == [0, 2]
        with pytest.raises(LinAlgError, match="singular"):
            torch.linalg.solve(singular, torch.ones(2))
        with pytest.raises(LinAlgError, match="leading minor of order 1 is not positive-definite"):
            torch.linalg.cholesky(-torch.eye(2))
        with pytest.raises(RuntimeError, match=r"U\[2,2\] is zero"):
            torch.linalg.lu_factor(singular)
        assert torch.linalg.cond(singular, 1).item() == float("inf")

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: torch.linalg.inv(torch.ones(2, 3)), "batches of square matrices"),
            (lambda: torch.linalg.inv(torch.ones(2)), "at least 2 dimensions"),
            (lambda: torch.linalg.inv(torch.ones(2, 2).long()), "floating point or complex"),
            (lambda: torch.linalg.svd(torch.ones(2, 2).half()), "Low precision"),
            (lambda: torch.linalg.eigh(torch.eye(2), UPLO="A"), "'L' or 'U'"),
            (lambda: torch.linalg.qr(torch.eye(2), "some"), "unrecognized mode"),
            (lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2), "1D or 2D"),
            (lambda: torch.linalg.matrix_norm(torch.eye(2), 3), "not supported"),
            (lambda: torch.linalg.multi_dot([torch.eye(2)]), "at least 2 tensors"),
            (lambda: torch.linalg.cross(torch.ones(2), torch.ones(2)), "must have length 3"),
            (lambda: torch.linalg.lu(torch.eye(2), pivot=False), "without pivoting"),
            (lambda: torch.linalg.svd(torch.eye(2), driver="gesvd"), "only supported on CUDA"),
            (lambda: torch.linalg.solve(torch.eye(2), torch.ones(3, 1)), "Incompatible shapes"),
        ],
    )
    def test_arguments(self, call, message):
        with pytest.raises(RuntimeError, match=message):
            call()

    def test_undefined_gradients(self):
        a = leaf(4, 3)
        with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
            torch.linalg.qr(a, "complete")[0].sum().backward()
        a = leaf(3, 3, complex_=True)
        with pytest.raises(RuntimeError, match="depends on this phase term"):
            (torch.linalg.svd(a)[0].imag ** 3).sum().backward()

    def test_missing_names(self):
        with pytest.raises(AttributeError, match="linalg"):
            _ = torch.linalg.choleski


def test_tolerances_of_both_signatures():
    a = torch.tensor([[2.0, 0.0], [0.0, 1e-3]])
    cut = [[0.5, 0.0], [0.0, 0.0]]
    for options in ({"rcond": 1e-2}, {"rtol": 1e-2, "hermitian": True}, {"atol": 0.5}):
        assert torch.linalg.pinv(a, **options).tolist() == cut
    assert torch.linalg.pinv(a, torch.tensor(1e-2), True).tolist() == cut
    for options in ({"tol": 0.5, "hermitian": True}, {"rtol": 0.5}, {"atol": torch.tensor(0.5)}):
        assert torch.linalg.matrix_rank(a, **options).item() == 1
    assert torch.linalg.matrix_rank(a, 1e-4).item() == 2
    for function in (torch.linalg.pinv, torch.linalg.matrix_rank):
        with pytest.raises(TypeError, match="foo"):
            function(a, foo=1)
