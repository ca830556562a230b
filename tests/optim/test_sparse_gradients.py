"""Optimizers with the sparse gradients that embeddings give; values recorded from PyTorch."""

import pytest

import ember as torch
from ember import optim

INDICES = [[1, 2], [1, 0]]


def trained(kind, **options):
    """A table, and the state of its optimizer, after three steps."""
    table = torch.nn.Embedding(4, 2, sparse=True)
    table.weight.data.copy_(torch.arange(8.0).view(4, 2) / 4)
    optimizer = kind(table.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        ((table(torch.tensor(INDICES)) ** 2) * torch.tensor([1.0, 2.0])).sum().backward()
        optimizer.step()
    return table.weight.detach(), optimizer.state[table.weight]


CASES = [
    (optim.SGD, {"lr": 0.1}, [[0, 0.054], [0.108, 0.006], [0.512, 0.27], [1.5, 1.75]]),
    (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.9},
        [[0, -0.135], [-0.27, -0.696], [0.062, -0.675], [1.5, 1.75]],
    ),
    (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        [[0, -0.1083], [-0.2166, -0.0374], [-0.1084, -0.5416], [1.5, 1.75]],
    ),
    (
        optim.SGD,
        {"lr": 0.1, "maximize": True},
        [[0, 0.686], [1.372, 4.374], [1.728, 3.43], [1.5, 1.75]],
    ),
    (
        optim.Adagrad,
        {"lr": 0.1, "lr_decay": 0.1},
        [[0, 0.0754], [0.3038, 0.5479], [0.7951, 1.0435], [1.5, 1.75]],
    ),
    (
        optim.SparseAdam,
        {"lr": 0.1},
        [[0, -0.0302], [0.2049, 0.4525], [0.7016, 0.9512], [1.5, 1.75]],
    ),
    (
        optim.SparseAdam,
        {"lr": 0.1, "betas": (0.8, 0.99), "maximize": True},
        [[0, 0.5517], [0.802, 1.0517], [1.3014, 1.5512], [1.5, 1.75]],
    ),
]


@pytest.mark.parametrize(("kind", "options", "expected"), CASES)
def test_three_steps(kind, options, expected):
    found, _ = trained(kind, **options)
    assert torch.allclose(found, torch.tensor(expected), atol=6e-5)


def test_state():
    _, state = trained(optim.SparseAdam, lr=0.1)
    assert state["step"] == 3 and state["exp_avg"].layout is torch.strided
    means = torch.tensor([[0, 0.1567], [0.4265, 1.3945], [0.4841, 1.2391], [0, 0]])
    assert torch.allclose(state["exp_avg"], means, atol=6e-5)
    _, state = trained(optim.SGD, lr=0.1, momentum=0.9)
    assert state["momentum_buffer"].is_sparse


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (optim.Adam, "Adam does not support sparse gradients, please consider SparseAdam instead"),
        (optim.AdamW, "Adam does not support sparse gradients, please consider SparseAdam"),
        (optim.RMSprop, "RMSprop does not support sparse gradients"),
        (optim.Adafactor, "Adafactor does not support sparse gradients"),
    ],
)
def test_who_does_not_take_them(kind, message):
    with pytest.raises(RuntimeError, match=message):
        trained(kind)


def test_no_decay_of_weights():
    for kind in (optim.SGD, optim.Adagrad):
        with pytest.raises(RuntimeError, match="weight_decay"):
            trained(kind, weight_decay=0.1)


def test_sparse_adam_checks_its_arguments():
    weight = torch.nn.Parameter(torch.ones(2))
    for options, message in (
        ({"lr": 0}, "Invalid learning rate: 0"),
        ({"eps": 0}, "Invalid epsilon value: 0"),
        ({"betas": (1, 0.0)}, "Invalid beta parameter at index 0: 1"),
    ):
        with pytest.raises(ValueError, match=message):
            optim.SparseAdam([weight], **options)
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        optim.SparseAdam([torch.ones(2).to_sparse()])
    optimizer = optim.SparseAdam([weight])
    weight.sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optimizer.step()
