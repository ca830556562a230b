"""torch.masked against NumPy's masked arrays."""

import numpy as np
import pytest

import ember as torch

X = np.random.default_rng(0).standard_normal((4, 5))
MASK = X < 0.7
A = np.ma.array(X, mask=~MASK)


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std"])
def test_reductions(name, dim):
    found = getattr(torch.masked, name)(torch.tensor(X), dim, mask=torch.tensor(MASK))
    options = {"ddof": 1} if name in ("var", "std") else {}
    expected = getattr(np.ma, name.removeprefix("a"))(A, axis=dim, **options)
    np.testing.assert_allclose(found.numpy(), np.asarray(expected))


def test_along_a_dim():
    x, mask = torch.tensor(X), torch.tensor(MASK)
    np.testing.assert_allclose(torch.masked.median(x[:, :3], 1).numpy(), np.median(X[:, :3], 1))
    np.testing.assert_allclose(
        torch.masked.cumsum(x, 1, mask=mask).numpy(), np.where(MASK, X, 0).cumsum(1)
    )
    weights = np.where(MASK, np.exp(X), 0)
    np.testing.assert_allclose(
        torch.masked.softmax(x, 1, mask=mask).numpy(), weights / weights.sum(1, keepdims=True)
    )
    np.testing.assert_allclose(
        torch.masked.logsumexp(x, 1, mask=mask).numpy(), np.log(weights.sum(1))
    )
    np.testing.assert_allclose(
        torch.masked.norm(x, 2, 1, mask=mask).numpy(), np.sqrt(np.where(MASK, X * X, 0).sum(1))
    )


def test_nothing_left_and_gradients():
    x = torch.ones(2, 3, requires_grad=True)
    none = torch.zeros(2, 3).bool()
    assert torch.masked.amax(x, 1, mask=none).tolist() == [-float("inf")] * 2
    assert torch.masked.mean(x, 1, mask=none).isnan().all()
    mask = torch.tensor([[True, False, True], [False, True, False]])
    torch.masked.mean(x, 1, mask=mask).sum().backward()
    assert x.grad.tolist() == [[0.5, 0, 0.5], [0, 1, 0]]
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        torch.masked.mean(torch.ones(2).int())
