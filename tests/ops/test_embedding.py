"""Embeddings: errors, rows rescaled in place, gradients of left-out rows; linear maps."""

import pytest

import ember as torch
import ember.nn.functional as F

TABLE = torch.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.embedding(torch.tensor([4]), TABLE), IndexError, "index out of range in self"),
        (lambda: F.embedding(torch.tensor([-1]), TABLE), IndexError, "index out of range in self"),
        (
            lambda: F.embedding(torch.tensor([1.0]), TABLE),
            RuntimeError,
            "scalar types: Long, Int; but got torch.FloatTensor instead",
        ),
        (
            lambda: F.embedding(torch.tensor([1]), TABLE, padding_idx=4),
            AssertionError,
            "Padding_idx must be within num_embeddings",
        ),
        (lambda: F.embedding(torch.tensor([1]), TABLE[0]), RuntimeError, "'weight' must be 2-D"),
        (lambda: F.embedding_bag(torch.tensor([1]), TABLE), ValueError, "offsets has to be a 1D"),
        (
            lambda: F.embedding_bag(torch.tensor([[1]]), TABLE, torch.tensor([0])),
            ValueError,
            "if input is 2D, then offsets has to be None",
        ),
        (
            lambda: F.embedding_bag(torch.tensor([1]), TABLE, torch.tensor([1])),
            RuntimeError,
            r"offsets\[0\] has to be 0",
        ),
        (
            lambda: F.embedding_bag(torch.tensor([1]), TABLE, torch.tensor([0, 2])),
            RuntimeError,
            "can not be greater than input's length 1",
        ),
        (
            lambda: F.embedding_bag(torch.tensor([[1]]), TABLE, mode="foo"),
            ValueError,
            "mode has to be one of sum, mean or max",
        ),
        (
            lambda: F.embedding_bag(
                torch.tensor([[1]]), TABLE, per_sample_weights=torch.ones(1, 1)
            ),
            NotImplementedError,
            r"only supported for mode='sum' \(got mode='mean'\)",
        ),
        (lambda: F.one_hot(torch.tensor([3]), 3), RuntimeError, "must be smaller than num_classes"),
        (lambda: F.one_hot(torch.tensor([-1])), RuntimeError, "must be non-negative"),
        (lambda: F.one_hot(torch.tensor([1.0])), RuntimeError, "index tensor of type LongTensor"),
        (lambda: F.one_hot(torch.tensor([]).long()), RuntimeError, "from empty tensor"),
        (
            lambda: F.linear(torch.ones(2, 3), torch.ones(4, 5)),
            RuntimeError,
            "cannot be multiplied",
        ),
        (
            lambda: F.bilinear(torch.ones(2, 3), torch.ones(2, 5), torch.ones(5, 3, 4)),
            RuntimeError,
            "input2 size does not match weight size: got 5 but expected 4",
        ),
        (lambda: F.glu(torch.ones(3)), RuntimeError, "Halving dimension must be even"),
        (lambda: F.prelu(torch.ones(2, 3), torch.ones(2)), RuntimeError, "parameter numbers = 2"),
        (lambda: F.rrelu(torch.ones(2), 0.5, 0.1), RuntimeError, "Lower bound should be less"),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_long_rows_are_rescaled_in_place():
    table = torch.ones(3, 4, requires_grad=True)
    found = F.embedding(torch.tensor([[0, 2], [2, 2]]), table, max_norm=1.0)
    assert found[0, 0].tolist() == pytest.approx([0.5] * 4)
    assert table[1].tolist() == [1.0] * 4
    assert table[2].tolist() == pytest.approx([0.5] * 4)
    with pytest.raises(IndexError, match="out of range"):
        F.embedding(torch.tensor([1, 9]), table, max_norm=1.0)
    assert table[1].tolist() == [1.0] * 4


def test_padding_row_is_read_but_gets_no_gradient():
    table = torch.ones(3, 2, requires_grad=True)
    found = F.embedding(torch.tensor([0, 1, 1]), table, padding_idx=1)
    assert found.tolist() == [[1, 1]] * 3
    found.sum().backward()
    assert table.grad.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_torch_embedding_takes_the_table_first():
    assert torch.embedding(TABLE, torch.tensor([3])).tolist() == [[6, 7]]


def test_empty_bags_are_zero():
    for mode in ("sum", "mean", "max"):
        found = F.embedding_bag(torch.tensor([1]), TABLE, torch.tensor([0, 1]), mode=mode)
        assert found.tolist() == [[2, 3], [0, 0]]


def test_arguments_of_embedding_bag_in_the_old_order():
    with pytest.warns(UserWarning, match="Argument order of nn.functional.embedding_bag"):
        found = F.embedding_bag(TABLE, torch.tensor([1]), torch.tensor([0]))
    assert found.tolist() == [[2, 3]]


def test_gumbel_softmax():
    torch.manual_seed(0)
    logits = torch.tensor([[0.0, 0.0, 3.0]], requires_grad=True)
    hard = F.gumbel_softmax(logits.expand(200, 3), hard=True)
    assert set(hard.flatten().tolist()) == {0.0, 1.0}
    assert hard.sum(0)[2].item() > 150
    (hard * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().min().item() > 0


def test_rrelu_draws_its_slopes():
    torch.manual_seed(0)
    x = torch.full((100,), -1.0)
    slopes = -F.rrelu(x, 0.25, 0.75, training=True)
    assert slopes.min().item() >= 0.25 and slopes.max().item() <= 0.75
    assert slopes.unique().numel() > 50
    assert F.rrelu(x, 0.25, 0.75)[0].item() == -0.5


def test_scaled_sparse_gradients_are_refused_when_they_are_computed():
    table = torch.ones(3, 2, requires_grad=True)
    found = F.embedding(torch.tensor([0, 2]), table, sparse=True, scale_grad_by_freq=True)
    assert found.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        found.sum().backward()
