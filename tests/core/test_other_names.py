"""NumPy's names of parameters."""

import pytest

import ember as torch


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: torch.add(x1=x, x2=x), (2, 3)),
        (lambda x: torch.sum(a=x, axis=1, keepdims=True), (2, 1)),
        (lambda x: torch.all(x, axis=-1, keepdims=True), (2, 1)),
        (lambda x: torch.all(x, axis=0, out=torch.empty(3, dtype=torch.bool)), (3,)),
        (lambda x: torch.cat([x, x], axis=1), (2, 6)),
        (lambda x: torch.stack([x, x], axis=-1), (2, 3, 2)),
        (lambda x: torch.std(x, axis=0, keepdims=True), (1, 3)),
        (lambda x: torch.sort(x, axis=0)[0], (2, 3)),
        (lambda x: torch.chunk(x, 2, axis=0)[0], (1, 3)),
        (lambda x: torch.gather(x, axis=1, index=torch.zeros(2, 1, dtype=torch.int64)), (2, 1)),
        (lambda x: x.all(axis=1), (2,)),
    ],
)
def test_numpy_names(call, shape):
    assert call(torch.ones(2, 3)).shape == shape


def test_names_of_neither():
    x = torch.ones(2, 3)
    for call in (
        lambda: torch.all(x, axes=1),
        lambda: x.all(axis=0, dim=0),
        lambda: torch.flip(x, axis=0),
        lambda: torch.mm(x1=x, x2=x),
    ):
        with pytest.raises(TypeError):
            call()
