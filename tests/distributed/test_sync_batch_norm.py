"""SyncBatchNorm over two processes computes what BatchNorm does with both batches."""

import pytest

import ember as torch
from ember import nn


def halves(rank, shape, options):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, *shape, generator=generator) * 2 + 100
    weights = torch.randn(4, 3, *shape, generator=generator)
    kind = nn.BatchNorm1d if len(shape) < 2 else nn.BatchNorm2d
    whole = kind(3, **options)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.copy_(torch.tensor([0.5, 1.0, 2.0]))
    part = nn.SyncBatchNorm.convert_sync_batchnorm(kind(3, **options))
    part.load_state_dict(whole.state_dict())
    rows = slice(0, 1) if rank == 0 else slice(1, 4)  # batches of different sizes
    own, every = x[rows].clone().requires_grad_(), x.clone().requires_grad_()
    (part(own) * weights[rows]).sum().backward()
    (whole(every) * weights).sum().backward()
    torch.testing.assert_close(part(own), whole(every)[rows], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(own.grad, every.grad[rows], atol=1e-4, rtol=1e-4)
    for name, value in whole.named_buffers():
        torch.testing.assert_close(dict(part.named_buffers())[name], value)
    part.eval()
    whole.eval()
    torch.testing.assert_close(part(own), whole(every)[rows])
    return [p.grad.tolist() for p in part.parameters()], [
        p.grad.tolist() for p in whole.parameters()
    ]


@pytest.mark.parametrize("shape", [(), (2, 2)])
@pytest.mark.parametrize(
    "options",
    [{}, {"affine": False}, {"momentum": None}],
    ids=str,
)
def test_as_one_batch(processes, shape, options):
    (first, whole), (second, _) = processes(2, halves, shape, options)
    for one, other, both in zip(first, second, whole, strict=True):
        assert [a + b for a, b in zip(one, other, strict=True)] == pytest.approx(both, abs=1e-3)


def too_small(rank):
    try:
        nn.SyncBatchNorm(2)(torch.ones(0 if rank else 1, 2))
    except ValueError as error:
        return str(error)


def test_one_value_is_too_few(processes):
    for message in processes(2, too_small):
        assert "Expected more than 1 value per channel when training" in message


def test_alone_it_is_batch_norm(alone):
    x = torch.randn(5, 2)
    torch.testing.assert_close(nn.SyncBatchNorm(2)(x), nn.BatchNorm1d(2)(x))
