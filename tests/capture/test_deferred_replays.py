"""Sequences of waiting work that come again are replayed, and give what they gave."""

import gc
import weakref

import numpy as np
import pytest

import ember as torch
from ember import nn
from ember.capture.background import background
from ember.capture.deferred import Deferred
from ember.capture.replays import Memory
from ember.core.executor import set_executor
from ember.nn import functional as F


@pytest.fixture
def waiting():
    """An executor of the test's own."""
    executor = Deferred()
    before = set_executor(executor)
    yield executor
    set_executor(before)


def programs(executor):
    return [r for s in executor.memory.sequences.values() for r in s.programs]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def eager(function):
    """What a function gives without waiting."""
    before = set_executor(None)
    try:
        return function()
    finally:
        set_executor(before)


def steps_of(count, rate=lambda n: 1e-2):
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(1)
    losses = []
    for n in range(count):
        optimizer.param_groups[0]["lr"] = rate(n)
        x, y = torch.randn(4, 6, generator=data), torch.randn(4, 3, generator=data)
        losses.append(step(net, optimizer, x, y))
    return [float(loss) for loss in losses], [p.tolist() for p in net.parameters()]


def assert_close(found, exact):
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-5)
    for a, b in zip(found[1], exact[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_step_is_one_program_of_few_kernels(waiting):
    found = steps_of(20)
    assert waiting.memory.replayed >= 15
    largest = max(programs(waiting), key=lambda r: len(r.lasting))
    calls = max(len(s) for s in map(str, largest.program.names)) and largest.program.count
    assert calls < 25 and len(largest.lasting) == 6 * 3  # parameters, and two of Adam's state each
    assert_close(found, eager(lambda: steps_of(20)))


def test_numbers_make_no_new_program(waiting):
    rates = lambda n: 1e-2 / (n + 1)  # noqa: E731
    found = steps_of(20, rates)
    assert len([r for r in programs(waiting) if len(r.lasting) == 18]) == 1
    assert waiting.memory.replayed >= 15
    assert_close(found, eager(lambda: steps_of(20, rates)))

    def late(n):
        return 1e-2 if n < 10 else 1e-3 * n

    found = steps_of(24, late)  # a number that begins to change makes one more, once
    assert len([r for r in programs(waiting) if len(r.lasting) == 18 and not r.is_dead]) <= 2
    assert waiting.memory.replayed >= 15 + 16
    assert_close(found, eager(lambda: steps_of(24, late)))


def test_a_loop_without_an_optimizer(waiting):
    def loop():
        net = network()
        for n in range(12):
            loss = F.mse_loss(net(torch.full((4, 6), n / 12)), torch.zeros(4, 3))
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.05 * p.grad
                    p.grad = None
        return [float(loss)], [p.tolist() for p in net.parameters()]

    found = loop()
    assert waiting.memory.replayed >= 8
    assert_close(found, eager(loop))


def test_results_that_are_kept_stay_what_they_were(waiting):
    kept = []
    for n in range(6):
        x = torch.full((3,), float(n))
        y = (x * 2 + 1).exp().log()
        z = y.sum()
        kept.append((y, z))
        waiting.settle()
    assert waiting.memory.replayed >= 3
    for n, (y, z) in enumerate(kept):
        np.testing.assert_allclose(y.tolist(), [2 * n + 1] * 3, rtol=1e-6)
        np.testing.assert_allclose(float(z), 3 * (2 * n + 1), rtol=1e-6)


def test_parts_of_one_storage_are_copied_in_from_where_they_lie(waiting):
    data = torch.arange(40.0).clone()
    waiting.settle()
    seen = []
    for n in range(8):
        part = data[5 * n : 5 * n + 5]
        twice = part * 2
        total = (twice + part.flip(0)).sqrt().sum()
        part += 0.5
        waiting.settle()
        seen.append(float(total))
    values = np.arange(40.0)
    exact = [np.sqrt(2 * p + p[::-1]).sum() for p in values.reshape(8, 5)]
    np.testing.assert_allclose(seen, exact, rtol=1e-6)
    np.testing.assert_allclose(data.tolist(), values + 0.5)
    assert waiting.memory.replayed >= 5


def test_a_storage_read_as_several_dtypes(waiting):
    for n in range(6):
        x = torch.full((4,), float(n)) * 1
        waiting.settle()
        bits = x.view(torch.int32)
        y = (x + 1).double() + (bits >> 23).double() * 0
        z = y * 2 - 1
        waiting.settle()
        assert z.tolist() == [2 * n + 1] * 4
    assert waiting.memory.replayed >= 3


def test_equal_models_by_turns(waiting):
    def turns():
        nets = [network() for _ in range(3)]
        optimizers = [
            torch.optim.SGD(n.parameters(), lr=0.01 * (k + 1)) for k, n in enumerate(nets)
        ]
        x, y = torch.ones(2, 6), torch.zeros(2, 3)
        losses = [float(step(nets[n % 3], optimizers[n % 3], x, y)) for n in range(24)]
        return losses, [p.tolist() for n in nets for p in n.parameters()]

    found = turns()
    assert waiting.memory.replayed >= 12
    assert_close(found, eager(turns))


def test_a_model_that_is_gone_leaves_its_memory(waiting):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        step(net, optimizer, torch.ones(2, 6), torch.zeros(2, 3))
    assert waiting.memory.replayed
    storage = weakref.ref(net[0].weight._array.storage)
    used = [r for r in programs(waiting) if len(r.lasting) == 6]
    assert used and not any(r.is_dead for r in used)
    del net, optimizer
    gc.collect()
    assert storage() is None
    assert all(r.is_dead for r in used)
    assert torch.ones(2).mul(2).tolist() == [2, 2]
    assert not any(len(r.lasting) == 6 for r in programs(waiting))


def test_one_model_after_another(waiting):
    for _ in range(12):
        steps_of(14)
    assert waiting.memory.replayed >= 12 * 11


def test_parameters_whose_memory_is_exchanged(waiting):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.ones(2, 6), torch.zeros(2, 3)
    for _ in range(5):
        step(net, optimizer, x, y)
    with torch.no_grad():
        net[0].weight.set_(torch.zeros(8, 6) + 0.25)
    for _ in range(5):
        step(net, optimizer, x, y)

    def again():
        other = network()
        optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
        for _ in range(5):
            step(other, optimizer, x, y)
        with torch.no_grad():
            other[0].weight.fill_(0.25)
        for _ in range(5):
            step(other, optimizer, x, y)
        return [p.tolist() for p in other.parameters()]

    for a, b in zip([p.tolist() for p in net.parameters()], eager(again), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_programs_made_beside_the_loop(waiting, monkeypatch):
    monkeypatch.setattr(background, "at_once", False)
    found = steps_of(6)
    background.wait()
    replayed = waiting.memory.replayed
    assert_close(found, eager(lambda: steps_of(6)))
    steps_of(6)
    assert waiting.memory.replayed >= replayed


def test_a_failing_program_says_where(waiting, monkeypatch):
    x = torch.ones(2)
    waiting.settle()
    for _ in range(3):
        z = (x * 2 + 1).exp() - 1
        waiting.settle()
    z = (x * 2 + 1).exp() - 1
    (replay,) = [r for r in programs(waiting) if r.lasting]

    def fail():
        raise ArithmeticError("nothing comes of it")

    monkeypatch.setattr(replay.program, "steps", [fail])
    with pytest.raises(ArithmeticError, match="nothing") as caught:
        z.tolist()
    assert any("test_deferred_replays.py" in note for note in caught.value.__notes__)
    with pytest.raises(ArithmeticError):
        z.tolist()
    assert x.tolist() == [1, 1]


def test_few_sequences_are_remembered(monkeypatch):
    monkeypatch.setattr("ember.capture.replays.MOST_SEQUENCES", 4)
    executor = Deferred()
    before = set_executor(executor)
    try:
        for n in range(1, 10):
            x = torch.ones(n)
            assert ((x + 1) * 2 - 1).exp().log().sum().item() == pytest.approx(3 * n)
    finally:
        set_executor(before)
    assert isinstance(executor.memory, Memory) and len(executor.memory.sequences) == 4
