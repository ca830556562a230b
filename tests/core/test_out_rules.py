"""`out=`: which dtypes and which memory a target may have, as PyTorch has it for each function."""

import pytest

import ember as torch


def _data():
    torch.manual_seed(0)
    return torch.rand(6), torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1, 0, 1, 0]).bool()


def _wide(dtype=torch.float64):
    return torch.empty(0, dtype=dtype)


EXACT = {
    "gather": lambda x, i, m: torch.gather(x, 0, i, out=_wide()),
    "masked_select": lambda x, i, m: torch.masked_select(x, m, out=_wide()),
    "take": lambda x, i, m: torch.take(x, i, out=_wide()),
    "sort": lambda x, i, m: torch.sort(x, out=(_wide(), _wide(torch.int64))),
    "places": lambda x, i, m: torch.max(x, 0, out=(_wide(torch.float32), _wide(torch.int32))),
    "argmax": lambda x, i, m: torch.argmax(x, 0, out=_wide(torch.int32)),
    "aminmax": lambda x, i, m: torch.aminmax(x, dim=0, out=(_wide(torch.float32), _wide())),
    "mm": lambda x, i, m: torch.mm(x.view(2, 3), x.view(3, 2), out=_wide()),
    "tril": lambda x, i, m: torch.tril(x.view(2, 3), out=_wide()),
    "complex": lambda x, i, m: torch.complex(x, x, out=_wide(torch.complex128)),
    "where": lambda x, i, m: torch.where(m, x, x, out=_wide()),
    "softmax": lambda x, i, m: torch.softmax(x, 0, out=_wide()),
    "inverse": lambda x, i, m: torch.linalg.inv(torch.eye(2), out=_wide()),
}
CASTING = {
    "add": (lambda x: torch.add(x, x, out=_wide()), [2.0, 4.0]),
    "sum": (lambda x: torch.sum(x, 0, out=_wide()), 3.0),
    "mean": (lambda x: torch.mean(x, 0, out=_wide()), 1.5),
    "cat": (lambda x: torch.cat([x, x], out=_wide()), [1.0, 2.0, 1.0, 2.0]),
    "cumsum": (lambda x: torch.cumsum(x, 0, out=_wide()), [1.0, 3.0]),
    "maximum of all": (lambda x: torch.max(x, out=_wide()), 2.0),
}
APART = {
    "gather": lambda x, i, m: torch.gather(i, 0, i, out=i),
    "masked_select": lambda x, i, m: torch.masked_select(x, m, out=x),
    "cat": lambda x, i, m: torch.cat([x[:2], x[:2]], out=x[:4]),
    "take": lambda x, i, m: torch.take(x, i, out=x),
    "kthvalue": lambda x, i, m: torch.kthvalue(x, 2, out=(x, torch.empty(0, dtype=torch.int64))),
    "index_add": lambda x, i, m: torch.index_add(x, 0, i, x[:3], out=x[:6]),
    "scatter": lambda x, i, m: torch.scatter(x, 0, i, x, out=x),
    "partly": lambda x, i, m: torch.add(x[:3], x[:3], out=x[1:4]),
}


@pytest.mark.parametrize("name", EXACT)
def test_only_the_dtype_of_the_result(name):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        EXACT[name](*_data())


@pytest.mark.parametrize("name", CASTING)
def test_another_dtype_where_pytorch_casts(name):
    function, expected = CASTING[name]
    made = function(torch.tensor([1.0, 2.0]))
    assert made.dtype == torch.float64
    assert made.tolist() == expected


@pytest.mark.parametrize("name", APART)
def test_targets_that_lie_over_what_is_read(name):
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        APART[name](*_data())


def test_targets_that_are_read_to_the_end_first():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.sum(x, 0, out=x[0])
    assert x.tolist() == [10.0, 2.0, 3.0, 4.0]
    torch.mm(x.view(2, 2), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), out=x.view(2, 2))
    assert x.tolist() == [2.0, 10.0, 4.0, 3.0]
    torch.tril(x.view(2, 2), out=x.view(2, 2))
    assert x.tolist() == [2.0, 0.0, 4.0, 3.0]


def test_index_select_refuses_shared_elements_of_another_shape():
    target = torch.zeros(2, 1).expand(2, 6)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.index_select(torch.ones(3, 6), 1, torch.tensor([0, 1]), out=target)


def test_factories_compute_in_the_dtype_of_the_target():
    whole = torch.empty(0, dtype=torch.int64)
    assert torch.arange(0, 3.5, 1, out=whole).tolist() == [0, 1, 2]
    assert torch.arange(1, 5, 1.5, dtype=torch.int32).tolist() == [1, 2, 3]
    assert torch.arange(1, 5, 1.5, dtype=torch.int64).tolist() == [1, 2, 3, 4]
    assert torch.zeros(2, out=torch.ones(2, dtype=torch.int64)).tolist() == [0, 0]
    assert torch.linspace(0, 3, 4, out=torch.empty(4, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 64, 0.5, out=torch.empty(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        torch.ones(2, dtype=torch.float32, out=torch.empty(2, dtype=torch.float64))
    for arguments in ((0, 3, 0), (0, 3, -1)):
        with pytest.raises(RuntimeError, match="step"), pytest.warns(match="range is deprecated"):
            torch.range(*arguments)


def test_more_dims_than_numpy_has():
    x = torch.ones(1).view((1,) * 65)
    for function in (torch.amax, torch.amin, torch.sum):
        with pytest.raises(RuntimeError, match="up to 64 dims"):
            function(x, 64)


def test_narrow_copy_of_a_missing_dim():
    with pytest.raises(RuntimeError, match="Expected dim"):
        torch.narrow_copy(torch.ones(10, 5, 20), 3, 0, 0)
    with pytest.raises(IndexError):
        torch.narrow_copy(torch.ones(10, 5, 20), -4, 0, 0)


def test_a_target_that_is_itself_read():
    empty = torch.empty(0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.cat([empty, torch.ones(4, 6)], out=empty)
