"""Ops that came last, one place each: segments, hashes, grids of quantization, grouped products,
eigenpairs. Values recorded from PyTorch 2.13."""

import math

import pytest

import ember as torch
from ember.autograd import gradcheck

NAN = math.nan
W = [[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]


def listed(tensor):
    return tensor.detach().tolist()


def flat(rows):
    return [v for row in rows for v in row]


# a reduction: one function


def test_hash_of_floats_and_integers():
    w = torch.tensor(W)
    assert int(torch.hash_tensor(torch.tensor(1.0))) == 4607182418800017408
    assert torch.hash_tensor(torch.tensor([1, 2, 4])).tolist() == 7
    assert torch.hash_tensor(torch.tensor([1.0, 3.0])).tolist() == 9221120237041090560
    assert torch.hash_tensor(w, 1).dtype is torch.uint64
    assert tuple(w.hash_tensor((0, 1), keepdim=True).shape) == (1, 1)


def test_what_has_no_hash():
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
        torch.hash_tensor(torch.ones(2), mode=1)
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        torch.hash_tensor(torch.ones(2) + 0j)
    with pytest.raises(IndexError, match="non-zero size"):
        torch.hash_tensor(torch.ones(0, 3), 0)


# an elementwise op: one function


def test_fake_quantization():
    quantized = torch.fake_quantize_per_tensor_affine
    assert listed(quantized(torch.tensor(W), 0.5, 1, 0, 7)) == [[1, 2], [3, -0.5], [3, 3]]
    assert listed(quantized(torch.tensor([0.25, 0.75, 1.25, NAN]), 0.5, 1, 0, 7)) == [
        0, 1, 1, -0.5,
    ]  # fmt: skip
    x = torch.tensor([0.25, -5.0, 9.0, NAN, 3.5], requires_grad=True)
    quantized(x, 0.5, 1, 0, 7).sum().backward()
    assert listed(x.grad) == [1, 0, 0, 0, 0]


def test_fake_quantization_by_channel():
    scale, zero = torch.tensor([0.5, 0.25]), torch.tensor([0, 1], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(torch.tensor(W), scale, zero, 1, 0, 15)
    assert listed(found) == [[1, 2], [3, -0.25], [5, 3.5]]


def test_bad_grids():
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        torch.fake_quantize_per_tensor_affine(torch.ones(1), 0.5, 9, 0, 7)
    with pytest.raises(RuntimeError, match="`quant_min` should be less than"):
        torch.fake_quantize_per_tensor_affine(torch.ones(1), 0.5, 1, 7, 0)
    with pytest.raises(NotImplementedError, match="Long"):
        torch.fake_quantize_per_tensor_affine(torch.ones(1).long(), 0.5, 1, 0, 7)


# views, and their copies


def test_copies_of_complex_views():
    w = torch.tensor(W)
    assert listed(torch.view_as_complex_copy(w)) == [1 + 2j, 3 - 4j, 5 + 6j]
    assert listed(torch.view_as_real_copy(torch.tensor([1 + 2j]))) == [[1, 2]]
    assert torch.view_as_complex_copy(w).data_ptr() != w.data_ptr()


def test_slice_inverse_sees_the_storage_as_the_source_does():
    base = torch.arange(6.0)
    piece = base[2:4]
    assert listed(torch.slice_inverse(piece, base, 0, 2, 4)) == listed(base)
    assert torch.slice_inverse(piece, base, 0, 2, 4).data_ptr() == base.data_ptr()


# a library op: the op and its kernel

SEGMENTS = {
    "sum": ([[4, -2], [0, 0], [12, NAN]], [[1, 1]] * 4),
    "mean": ([[2, -1], [NAN, NAN], [6, NAN]], [[0.5, 0.5]] * 4),
    "max": ([[3, 2], [-math.inf] * 2, [7, NAN]], [[0, 1], [1, 0], [0, 0], [1, 1]]),
    "min": ([[1, -4], [math.inf] * 2, [5, NAN]], [[1, 0], [0, 1], [1, 0], [0, 1]]),
    "prod": ([[3, -8], [1, 1], [35, NAN]], [[3, -4], [1, 2], [7, NAN], [5, 6]]),
}


@pytest.mark.parametrize("reduce", SEGMENTS)
def test_segments_and_their_gradients(reduce):
    x = torch.tensor([*W, [7.0, NAN]], requires_grad=True)
    found = torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 0, 2]))
    values, slopes = SEGMENTS[reduce]
    assert flat(listed(found)) == pytest.approx(flat(values), nan_ok=True)
    found[[0, 2]].sum().backward()
    assert flat(listed(x.grad)) == pytest.approx(flat(slopes), nan_ok=True)


def test_segments_by_offsets_and_rows():
    x = torch.tensor([*W, [7.0, 8.0]])
    found = torch.segment_reduce(x, "sum", offsets=torch.tensor([1, 2, 4]))
    assert listed(found) == [[3, -4], [12, 14]]
    lengths = torch.tensor([[1, 1], [2, 0], [1, 1], [0, 2]])
    assert listed(torch.segment_reduce(x, "sum", lengths=lengths, axis=1)) == [
        [1, 2], [-1, 0], [5, 6], [0, 15],
    ]  # fmt: skip
    found = torch.segment_reduce(x, "max", lengths=torch.tensor([4]), initial=6.5)
    assert listed(found) == [[7, 8]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "prod"])
def test_slopes_of_segments(reduce):
    x = torch.tensor([2.0, -1.0, 3.0, 0.5, 4.0], dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([2, 3])
    assert gradcheck(lambda x: torch.segment_reduce(x, reduce, lengths=lengths), (x,))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"lengths": [2, 2]}, RuntimeError, "Expected all rows of lengths"),
        ({"lengths": [4, -1]}, RuntimeError, "lengths contains negative value!"),
        ({}, RuntimeError, "Either lengths or offsets must be defined"),
        ({"lengths": [3], "axis": 1}, RuntimeError, "Expected axis to be the last dimension"),
        ({"indices": [3]}, RuntimeError, "indices based reduction is not supported"),
    ],
)
def test_bad_segments(arguments, error, message):
    named = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in arguments.items()}
    with pytest.raises(error, match=message):
        torch.segment_reduce(torch.tensor(W), "sum", **named)


# compositions


def test_norm_except_dim():
    w = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert listed(torch.norm_except_dim(w)) == [[5], [10]]
    assert listed(torch.norm_except_dim(w, 1, -1)) == 21
    assert tuple(torch.norm_except_dim(torch.ones(2, 3, 4), 2, 1).shape) == (1, 3, 1)


def test_grouped_products():
    product = torch.nn.functional.grouped_mm
    a, b = torch.arange(12.0).reshape(6, 2), torch.arange(12.0).reshape(3, 2, 2)
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    found = product(a, b, offs=ends)
    assert torch.equal(found[:2], a[:2] @ b[0])
    assert torch.equal(found[2:5], a[2:5] @ b[2])
    ones = product(torch.ones(4, 6), torch.ones(6, 8), offs=ends)
    assert listed(ones[:, 0, 0]) == [2, 0, 3]
    wide = product(torch.ones(3, 4, 6), torch.ones(6, 5), offs=ends)
    assert listed(wide) == [[6.0] * 5] * 4
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        product(a, b)


def matrix():
    a = torch.arange(1.0, 13.0, dtype=torch.float64).diag()
    a[10, 11] = a[11, 10] = 0.3
    return a


def test_eigenpairs():
    torch.manual_seed(0)
    a = matrix()
    exact = torch.linalg.eigvalsh(a)
    values, vectors = torch.lobpcg(a, k=2, tol=1e-9)
    assert listed(values) == pytest.approx(listed(exact.flip(0)[:2]))
    assert torch.allclose(a @ vectors, vectors * values, atol=1e-6)
    assert listed(torch.lobpcg(a, k=2, largest=False)[0]) == pytest.approx([1, 2])
    b = 2 * torch.eye(12, dtype=torch.float64)
    assert listed(torch.lobpcg(a, B=b)[0]) == pytest.approx([listed(exact)[-1] / 2])
    assert tuple(torch.lobpcg(torch.stack([a, 2 * a]), k=2)[1].shape) == (2, 12, 2)


def test_gradient_of_eigenpairs():
    torch.manual_seed(0)
    a = matrix().requires_grad_()
    values, vectors = torch.lobpcg(a, k=1, tol=1e-10)
    (values.sum() + vectors[11].abs().sum()).backward()
    exact = matrix().requires_grad_()
    values, vectors = torch.linalg.eigh(exact)
    (values[-1:].sum() + vectors[11, -1:].abs().sum()).backward()
    symmetric = (a.grad + a.grad.mT) / 2
    assert torch.allclose(symmetric, (exact.grad + exact.grad.mT) / 2, atol=1e-5)


def test_too_few_rows_for_eigenpairs():
    with pytest.raises(ValueError, match="LOBPCG algorithm is not applicable"):
        torch.lobpcg(torch.eye(5), k=2)
    with pytest.raises(AssertionError, match="A must be square"):
        torch.lobpcg(torch.ones(3, 4))
