"""Sparse tensors: their parts, conversions, arithmetic, products, gradients, text and files."""

import copy
import io
import pickle

import pytest

import ember as torch

INDICES, VALUES = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]
DENSE = [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]


def matrix(**options):
    return torch.sparse_coo_tensor(INDICES, VALUES, (2, 3), **options)


def twice():
    """One place stored twice, and not in order."""
    return torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 3))


def test_parts_and_questions():
    s = matrix()
    assert s.layout is torch.sparse_coo and s.is_sparse and not s.is_sparse_csr
    assert (s.shape, s.dim(), s.numel(), s._nnz()) == ((2, 3), 2, 6, 3)
    assert (s.sparse_dim(), s.dense_dim(), s.stride()) == (2, 0, (0, 0))
    assert s._indices().tolist() == INDICES and s._values().tolist() == VALUES
    assert not s.is_coalesced() and s.coalesce().is_coalesced()
    assert s.coalesce().indices().tolist() == INDICES
    assert type(s) is torch.Tensor
    added = twice().coalesce()
    assert added.indices().tolist() == [[0, 1], [1, 0]] and added.values().tolist() == [3.0, 3.0]
    assert added.coalesce() is added


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("values", "sparse"),
        ("indices", "sparse coordinate"),
        ("coalesce", "sparse coordinate"),
        ("is_coalesced", "sparse coordinate"),
        ("crow_indices", "sparse row compressed"),
        ("ccol_indices", "sparse column compressed"),
    ],
)
def test_dense_tensors_say_what_was_expected(name, what):
    with pytest.raises(RuntimeError, match=f"{name} expected {what} tensor layout but got Strided"):
        getattr(torch.ones(2), name)()


def test_only_coalesced_tensors_give_their_indices():
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        matrix().indices()
    with pytest.raises(RuntimeError, match="crow_indices expected .* but got Sparse"):
        matrix().crow_indices()
    with pytest.raises(RuntimeError, match="indices expected .* but got SparseCsr"):
        matrix().to_sparse_csr().indices()


@pytest.mark.parametrize(
    ("indices", "values", "size", "message"),
    [
        ([[0, 1], [1, 5]], [1.0, 2.0], (2, 2), "for dim 1, size is 2 but found index 5"),
        ([[0, -1], [1, 1]], [1.0, 2.0], (2, 2), "found negative index -1 for dim 0"),
        ([[0, 1], [1, 0]], [1.0, 2.0, 3.0], None, "must have same nnz"),
        ([0, 1], [1.0, 2.0], (2, 2), "indices must be sparse_dim x nnz"),
        ([[0, 1]], [1.0, 2.0], (2, 2), "sparse_dim = 1, dense_dim = 0"),
    ],
)
def test_indices_that_do_not_fit(indices, values, size, message):
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_coo_tensor(indices, values, size)


def test_sizes_are_inferred_and_empty_tensors_are_made():
    assert torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2]).shape == (2, 2)
    assert torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2]).dtype is torch.int64
    for empty in (
        torch.sparse_coo_tensor((2, 3)),
        torch.zeros(2, 3, layout=torch.sparse_coo),
        torch.zeros_like(matrix()),
        matrix().new_zeros(2, 3),
    ):
        assert empty._nnz() == 0 and empty.to_dense().tolist() == [[0.0] * 3] * 2
    assert torch.zeros(2, 3, layout=torch.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="not implemented for sparse layout"):
        torch.ones(2, layout=torch.sparse_coo)


def test_conversions_go_round():
    d = torch.tensor(DENSE)
    for made in (matrix(), d.to_sparse(), d.to_sparse(1), d.to_sparse_csr(), d.to_sparse_csc()):
        assert made.to_dense().tolist() == DENSE
        assert made.to_sparse_csr().crow_indices().tolist() == [0, 1, 3]
        assert made.to_sparse_csr().col_indices().tolist() == [2, 0, 2]
        assert made.to_sparse_csc().ccol_indices().tolist() == [0, 1, 1, 3]
        assert made.to_sparse_csc().row_indices().tolist() == [1, 0, 1]
    assert d.to_dense() is d and matrix().to_sparse_coo().is_sparse
    assert d.to_sparse(1).values().tolist() == DENSE
    assert d.to_sparse(layout=torch.sparse_csr).layout is torch.sparse_csr
    assert torch.tensor(3.0).to_sparse().to_dense().item() == 3.0
    with pytest.raises(RuntimeError, match=r"sparse_dim argument must be in \[0,2\] range"):
        d.to_sparse(3)
    for missing in (d.to_sparse_bsr, d[0].to_sparse_csr):
        with pytest.raises(NotImplementedError, match="sparse_csr"):
            missing((1, 1))
    with pytest.raises(NotImplementedError, match="sparse_bsr"):
        torch.sparse_bsr_tensor([0, 1], [0], [[[1.0]]])


def test_compressed_tensors_are_checked():
    good = torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], dtype=torch.float64)
    assert good.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]] and good.dtype is torch.float64
    with pytest.raises(RuntimeError, match=r"`crow_indices\[..., -1\] == nnz` is not satisfied"):
        torch.sparse_csr_tensor([0, 1, 3], [1, 0], [1.0, 2.0], (2, 3))
    with pytest.raises(RuntimeError, match="`0 <= col_indices < ncols` is not satisfied"):
        torch.sparse_csr_tensor([0, 1, 2], [1, 7], [1.0, 2.0], (2, 3))
    with pytest.raises(RuntimeError, match="expected sparse compressed tensor layout but got none"):
        torch.sparse_compressed_tensor([0, 1], [0], [1.0])


@pytest.mark.parametrize("make", [matrix, lambda: matrix().to_sparse_csr()])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda s: s * 2, [[0, 0, 6], [8, 0, 10]]),
        (lambda s: 2 * s, [[0, 0, 6], [8, 0, 10]]),
        (lambda s: s / 2, [[0, 0, 1.5], [2, 0, 2.5]]),
        (lambda s: s // 2, [[0, 0, 1], [2, 0, 2]]),
        (lambda s: -s, [[0, 0, -3], [-4, 0, -5]]),
        (lambda s: s + s, [[0, 0, 6], [8, 0, 10]]),
        (lambda s: s - 2 * s, [[0, 0, -3], [-4, 0, -5]]),
        (lambda s: s * s, [[0, 0, 9], [16, 0, 25]]),
        (lambda s: s**2, [[0, 0, 9], [16, 0, 25]]),
        (lambda s: s * torch.tensor([1.0, 2.0, 3.0]), [[0, 0, 9], [4, 0, 15]]),
        (lambda s: torch.ones(2, 3) + s, [[1, 1, 4], [5, 1, 6]]),
        (lambda s: (s * 4).sqrt().square(), [[0, 0, 12], [16, 0, 20]]),
        (lambda s: s.double().abs(), [[0, 0, 3], [4, 0, 5]]),
        (lambda s: s.clone().detach(), [[0, 0, 3], [4, 0, 5]]),
        (lambda s: s.t(), [[0, 4], [0, 0], [3, 5]]),
        (lambda s: s.transpose(0, 1) @ torch.eye(2), [[0, 4], [0, 0], [3, 5]]),
        (lambda s: s.sum(), 12),
        (lambda s: s.sum(0), [4, 0, 8]),
        (lambda s: s.sum(1, keepdim=True), [[3], [9]]),
        (lambda s: s[1], [4, 0, 5]),
        (lambda s: s[1, 2], 5),
        (lambda s: s @ s.t(), [[9, 15], [15, 41]]),
        (lambda s: s @ torch.ones(3), [3, 9]),
        (lambda s: torch.ones(2) @ s, [4, 0, 8]),
        (lambda s: torch.ones(1, 2) @ s, [[4, 0, 8]]),
        (lambda s: torch.sparse.mm(s, torch.ones(3, 1)), [[3], [9]]),
        (lambda s: torch.addmm(torch.ones(2, 1), s, torch.ones(3, 1)), [[4], [10]]),
    ],
)
def test_arithmetic(make, function, expected):
    found = function(make()).to_dense()
    assert torch.allclose(found, torch.tensor(expected, dtype=found.dtype))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda s: s + twice(), [[0, 3, 3], [7, 0, 5]]),
        (lambda s: s.coalesce() * twice().coalesce(), [[0, 0, 0], [12, 0, 0]]),
        (lambda s: twice() * twice(), [[0, 9, 0], [9, 0, 0]]),
        (lambda s: twice().sqrt().square(), [[0, 3, 0], [3, 0, 0]]),
        (lambda s: torch.cat([s, s], 1), [[0, 0, 3, 0, 0, 3], [4, 0, 5, 4, 0, 5]]),
        (lambda s: torch.stack([s, s])[1], DENSE),
        (lambda s: s.unsqueeze(1)[:, 0], DENSE),
        (lambda s: s.permute(1, 0), [[0, 4], [0, 0], [3, 5]]),
        (lambda s: twice().index_select(1, torch.tensor([1, 0, 1])), [[3, 0, 3], [0, 3, 0]]),
        (lambda s: torch.smm(s, torch.ones(3, 2)), [[3, 3], [9, 9]]),
        (lambda s: torch.hspmm(s, torch.ones(3, 2)), [[3, 3], [9, 9]]),
        (lambda s: torch.spmm(s, torch.ones(3, 2)), [[3, 3], [9, 9]]),
        (lambda s: torch.sspaddmm(s, s, torch.ones(3, 3)), [[3, 3, 6], [13, 9, 14]]),
        (lambda s: torch.sparse.sum(s, (0, 1)), 12),
        (lambda s: torch.nn.functional.linear(torch.ones(1, 3), s), [[3, 9]]),
        (lambda s: torch.sparse.softmax(twice(), 0), [[0, 1, 0], [1, 0, 0]]),
        (lambda s: s.sparse_mask(twice().coalesce()), [[0, 0, 0], [4, 0, 0]]),
        (lambda s: torch.ones(2, 3).sparse_mask(s), [[0, 0, 1], [1, 0, 1]]),
    ],
)
def test_coordinates_only(function, expected):
    found = function(matrix()).to_dense()
    assert torch.allclose(found, torch.tensor(expected, dtype=found.dtype))


def test_softmax_counts_what_is_not_stored_as_nothing():
    found = torch.sparse.softmax(matrix(), 1).to_dense()
    expected = torch.tensor([[0, 0, 1], [0.2689414, 0, 0.7310586]])
    assert torch.allclose(found, expected)
    logs = torch.sparse.log_softmax(matrix(), 1)._values()
    assert torch.allclose(logs, torch.tensor([0, -1.3132616, -0.3132616]))


def test_written_in_place():
    s = matrix()
    assert s.mul_(2) is s and s._values().tolist() == [6.0, 8.0, 10.0]
    assert s.add_(matrix()).to_dense().tolist() == [[0.0, 0.0, 9.0], [12.0, 0.0, 15.0]]
    assert s._version == 2
    assert s.zero_()._nnz() == 0
    d = torch.ones(2, 3)
    d.add_(matrix(), alpha=2)
    assert d.tolist() == [[1.0, 1.0, 7.0], [9.0, 1.0, 11.0]]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        matrix(requires_grad=True).mul_(2)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda s: s.exp(), "exp"),
        (lambda s: torch.softmax(s, 1), "softmax"),
        (lambda s: s.view(6), "view"),
        (lambda s: s == s, "eq"),
        (lambda s: s[0:1], "indexing"),
        (lambda s: s.max(), "max"),
    ],
)
def test_what_is_not_there_says_so(function, name):
    with pytest.raises(NotImplementedError, match=rf"{name}.*to_dense\(\)"):
        function(matrix())


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda s: s + torch.ones(2, 3), RuntimeError, r"Use add\(dense, sparse\) instead"),
        (lambda s: s / torch.ones(2, 3), RuntimeError, "requires a scalar or zero-dim"),
        (lambda s: s.numpy(), TypeError, "can't convert Sparse layout tensor to numpy"),
        (lambda s: s.tolist(), RuntimeError, "doesn't have storage"),
        (lambda s: s @ torch.ones(2, 2), RuntimeError, "Expected dim 0 size 3, got 2"),
        (lambda s: s @ torch.ones(2), RuntimeError, "mv: expected"),
        (lambda s: torch.zeros(2, 3).copy_(s), RuntimeError, "between dense and sparse"),
        (lambda s: s.untyped_storage(), NotImplementedError, "Cannot access storage"),
    ],
)
def test_errors(function, kind, message):
    with pytest.raises(kind, match=message):
        function(matrix())


COORDINATES = """\
tensor(indices=tensor([[0, 1, 1],
                       [2, 0, 2]]),
       values=tensor([3., 4., 5.]),
       size=(2, 3), nnz=3, layout=torch.sparse_coo)"""
ROWS = """\
tensor(crow_indices=tensor([0, 1, 3]),
       col_indices=tensor([2, 0, 2]),
       values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,
       layout=torch.sparse_csr, grad_fn=<ToSparseCsrBackward0>)"""
NOTHING = """\
tensor(indices=tensor([], size=(2, 0)),
       values=tensor([], size=(0,)),
       size=(2, 3), nnz=0, dtype=torch.float64, layout=torch.sparse_coo)"""
TEXTS = [
    (matrix, COORDINATES),
    (lambda: matrix(requires_grad=True).to_sparse_csr(), ROWS),
    (lambda: torch.sparse_coo_tensor((2, 3), dtype=torch.float64), NOTHING),
]


@pytest.mark.parametrize(("make", "text"), TEXTS)
def test_text(make, text):
    assert repr(make()) == text


# gradients


def test_gradients_of_products():
    other = torch.arange(6.0).view(3, 2).requires_grad_()
    weight = torch.arange(1.0, 5.0).view(2, 2)
    s = matrix(requires_grad=True)
    (torch.sparse.mm(s, other) * weight).sum().backward()
    assert s.grad.layout is torch.sparse_coo
    assert s.grad._values().tolist() == [14.0, 4.0, 32.0]
    assert other.grad.tolist() == [[12.0, 16.0], [0.0, 0.0], [18.0, 26.0]]
    s, other.grad = matrix(requires_grad=True), None
    torch.mm(s, other).sum().backward()
    assert s.grad.tolist() == [[1.0, 5.0, 9.0], [1.0, 5.0, 9.0]]  # dense, as there
    assert other.grad.tolist() == [[4.0, 4.0], [0.0, 0.0], [8.0, 8.0]]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda s: s.to_dense().sum(), [1, 1, 1]),
        (lambda s: (s * 3).to_dense().sum(), [3, 3, 3]),
        (lambda s: s.coalesce().values().square().sum(), [6, 8, 10]),
        (lambda s: torch.sparse.sum(s), [1, 1, 1]),
        (lambda s: torch.sparse.sum(s, 0).to_dense().square().sum(), [16, 8, 16]),
        (lambda s: torch.sparse.sum(s * s), [6, 8, 10]),
        (lambda s: torch.sparse.sum((s + s).t()), [2, 2, 2]),
        (lambda s: s.to_sparse_csr().to_dense().sum(), [1, 1, 1]),
        (lambda s: torch.sparse.sum(s @ s.t()), [16, 8, 16]),
        (
            lambda s: (torch.sparse.softmax(s, 1).to_dense() * torch.arange(6.0).view(2, 3)).sum(),
            [0, -0.39322388, 0.39322388],
        ),
    ],
)
def test_gradients_are_sparse(function, expected):
    s = matrix(requires_grad=True)
    function(s).backward()
    assert s.grad.layout is torch.sparse_coo
    found = s.grad.coalesce()
    assert found.indices().tolist() == INDICES
    assert torch.allclose(found.values(), torch.tensor(expected, dtype=torch.float32))


def test_gradients_of_the_parts_and_of_the_dense():
    values = torch.tensor(VALUES, requires_grad=True)
    s = torch.sparse_coo_tensor(INDICES, values, (2, 3))
    assert s.grad_fn.name() == "SparseCooTensorWithDimsAndTensorsBackward0"
    (s * 2).to_dense().sum().backward()
    assert values.grad.tolist() == [2.0, 2.0, 2.0]
    d = torch.tensor(DENSE, requires_grad=True)
    (d.to_sparse() * 3).to_dense().sum().backward()
    assert d.grad.tolist() == [[0.0, 0.0, 3.0], [3.0, 0.0, 3.0]]
    d.grad = None
    d.sparse_mask(twice().coalesce()).to_dense().sum().backward()
    assert d.grad.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


def test_derivatives_of_derivatives():
    values = torch.tensor(VALUES, dtype=torch.float64, requires_grad=True)
    other = torch.arange(6.0, dtype=torch.float64).view(3, 2).requires_grad_()

    def product(v, o):
        return torch.sparse.mm(torch.sparse_coo_tensor(INDICES, v, (2, 3)), o)

    assert torch.autograd.gradcheck(product, (values, other))
    assert torch.autograd.gradgradcheck(product, (values, other))


def test_gradient_by_autograd_grad():
    s = matrix(requires_grad=True)
    (found,) = torch.autograd.grad(torch.sparse.sum(s * s), s)
    assert found._values().tolist() == [6.0, 8.0, 10.0] and s.grad is None


def test_embedding_gives_a_gradient_of_rows():
    table = torch.nn.Embedding(5, 3, sparse=True, padding_idx=0)
    indices = torch.tensor([[1, 2], [1, 0]])
    table(indices).sum().backward()
    grad = table.weight.grad
    assert grad._indices().tolist() == [[1, 2, 1]] and grad._values().tolist() == [[1.0] * 3] * 3
    table(indices).sum().backward()
    assert table.weight.grad._values().tolist() == [[2.0] * 3] * 3
    table.zero_grad(set_to_none=False)
    assert table.weight.grad._nnz() == 0 and table.weight.grad.shape == (5, 3)
    table.zero_grad()
    (table(indices).sum() + table.weight.sum()).backward()
    assert table.weight.grad[:, 0].tolist() == [1.0, 3.0, 2.0, 1.0, 1.0]


def test_bags_give_a_gradient_of_rows():
    table = torch.nn.EmbeddingBag(5, 2, sparse=True, mode="mean")
    table(torch.tensor([1, 2, 1]), torch.tensor([0, 2])).sum().backward()
    assert table.weight.grad._indices().tolist() == [[1, 2, 1]]
    assert table.weight.grad._values()[:, 0].tolist() == [0.5, 0.5, 1.0]


# files and copies


@pytest.mark.parametrize("make", [matrix, lambda: matrix().to_sparse_csr()])
def test_saved_and_copied(make):
    s = make()
    file = io.BytesIO()
    torch.save({"s": s}, file)
    file.seek(0)
    for other in (
        torch.load(file)["s"],
        pickle.loads(pickle.dumps(s)),
        copy.copy(s),
        copy.deepcopy(s),
    ):
        assert other.layout is s.layout and other.to_dense().tolist() == DENSE
    assert copy.deepcopy(matrix(requires_grad=True)).requires_grad


def test_files_may_not_point_outside():
    bad = (torch.sparse_coo, (torch.tensor([[7]]), torch.ones(1), torch.Size([2]), False))
    rebuild = __import__("ember._utils", fromlist=["x"])._rebuild_sparse_tensor
    with pytest.raises(RuntimeError, match="size is 2 but found index 7"):
        rebuild(*bad)


def test_parameters_may_be_sparse():
    parameter = torch.nn.Parameter(matrix())
    assert parameter.is_sparse and parameter.requires_grad
    assert repr(parameter).startswith("Parameter containing:\ntensor(indices=")


def test_spdiags_and_sampled_products():
    made = torch.sparse.spdiags(torch.arange(9.0).reshape(3, 3), torch.tensor([0, -1, 1]), (3, 3))
    assert made.to_dense().tolist() == [[0.0, 7.0, 0.0], [3.0, 1.0, 8.0], [0.0, 4.0, 2.0]]
    sampled = torch.sparse.sampled_addmm(
        matrix().to_sparse_csr(), torch.ones(2, 3), torch.ones(3, 3), alpha=2.0
    )
    assert sampled.values().tolist() == [9.0, 10.0, 11.0]
    with pytest.raises(AttributeError, match="2:4 sparsity"):
        torch.sparse.to_sparse_semi_structured
