"""Captured functions do what the functions do: over many steps, whatever changes between them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember import nn
from ember.capture.compiled import Captured
from ember.nn import functional as F
from ember.utils.flop_counter import FlopCounterMode


def perceptron():
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)),
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(48, 4),
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.cell(x.view(-1, 3, 4))[0][:, -1])


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.1)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.layer(x.view(-1, 3, 4)).flatten(1))


MODELS = [perceptron, convolutional, Recurrent, Attentive]
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
}


def train(model, optimizer, captured, steps=25, clip=False, device="cpu"):
    """The losses and the parameters of a training, with a schedule."""
    torch.manual_seed(0)
    net = model().to(device)
    optimizer = OPTIMIZERS[optimizer](net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss

    run = Captured(step) if captured else step
    data = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        x = torch.randn(6, 12, generator=data).to(device)
        y = torch.randint(0, 4, (6,), generator=data).to(device)
        losses.append(run(x, y).item())
        schedule.step()
    if captured:
        assert any(r.program is not None for r in run.recordings), run.report()
    state = {k: v.detach().cpu().numpy() for k, v in net.state_dict().items()}
    return losses, state


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_is_the_same(model, optimizer):
    plain, captured = (train(model, optimizer, c) for c in (False, True))
    np.testing.assert_allclose(captured[0], plain[0], rtol=2e-5)
    for name, value in plain[1].items():
        np.testing.assert_allclose(captured[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_gradients_may_be_clipped():
    plain, captured = (train(perceptron, "adamw", c, clip=True) for c in (False, True))
    np.testing.assert_allclose(captured[0], plain[0], rtol=2e-5)


def weights():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_gradients_add_up_over_calls():
    sums = []
    for captured in (False, True):
        net = weights()

        def pass_back(x, net=net):
            loss = net(x).pow(2).sum()
            loss.backward()
            return loss.detach()

        run = Captured(pass_back) if captured else pass_back
        for turn in range(12):
            if turn % 4 == 0:
                net.zero_grad()
            run(torch.full((2, 3), float(turn)))
        sums.append(net.weight.grad.clone())
    torch.testing.assert_close(*sums)


def test_a_gradient_that_is_kept_is_not_overwritten():
    net = weights()

    def pass_back(x):
        net.zero_grad()
        net(x).sum().backward()

    run = Captured(pass_back)
    kept = []
    for turn in range(6):
        run(torch.full((1, 3), float(turn)))
        kept.append(net.weight.grad)
    assert [float(k[0, 0]) for k in kept] == [0, 1, 2, 3, 4, 5]


def test_results_are_fresh_and_views_stay_inside():
    run = Captured(lambda x: (x[1:] * 2, x, x.sum()))
    x = torch.arange(3.0)
    first = run(x)
    second = run(x + 1)
    assert first[0].tolist() == [2, 4]
    assert second[0].tolist() == [4, 6]
    assert first[1] is x
    assert float(second[2]) == 6
    assert run.recordings[0].program is not None


def test_arguments_that_are_written_are_written():
    def write(x):
        x[1:] += 1
        return x.mean()

    run = Captured(write)
    for start in (0.0, 5.0, 7.0):
        whole = torch.full((6,), start)
        part = whole[2:5]
        assert float(run(part)) == pytest.approx(start + 2 / 3)
        assert whole.tolist() == [start] * 3 + [start + 1] * 2 + [start]
    assert len(run.recordings) == 1


def test_other_shapes_dtypes_and_numbers_are_recorded_anew():
    run = Captured(lambda x, k: x * k)
    for size in (2, 3, 2, 3):
        assert run(torch.ones(size), 2).tolist() == [2] * size
    assert len(run.recordings) == 2
    assert run(torch.ones(2, dtype=torch.int64), 3).dtype is torch.int64
    assert run(torch.ones(2), 5).tolist() == [5, 5]
    assert run(torch.ones(2), 2).tolist() == [2, 2]
    assert "argument 0 is a torch.float32 tensor of shape (3,)" in run.report()
    for number in range(20):
        assert run(torch.ones(2), number).tolist() == [number] * 2
    assert len(run.recordings) == 8  # then it runs as it is


scale = 2.0


def test_what_surrounds_a_function_is_watched():
    global scale
    net, factor = weights(), 3.0
    run = Captured(lambda x: net(x) * factor * scale)
    x = torch.ones(1, 3)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(x), net(x) * 6)
        factor = 4.0
        torch.testing.assert_close(run(x), net(x) * 8)
        scale = 1.0
        torch.testing.assert_close(run(x), net(x) * 4)
        net.weight = nn.Parameter(torch.ones(2, 3))
        torch.testing.assert_close(run(x), net(x) * 4)
        net.bias.data = torch.zeros(2)
        assert run(x).tolist() == [[12, 12]]
        net.bias.fill_(1)
        assert run(x).tolist() == [[16, 16]]
    scale = 2.0


def test_constants_are_as_they_were_made():
    def function(x):
        places = torch.arange(3) * 1.0
        start = torch.tensor([1.0, 2.0, 3.0])
        start += x
        return start * places, torch.from_numpy(np.ones(3, np.float32)) + x

    run = Captured(function)
    for turn in range(3):
        x = torch.full((3,), float(turn))
        for found, exact in zip(run(x), function(x), strict=True):
            assert torch.equal(found, exact)
    assert run.recordings[0].program is not None, run.report()


shared = torch.ones(3)


def in_between(x):
    return x * shared + scale


def test_functions_that_a_function_calls_are_watched():
    global scale, shared
    run = Captured(lambda x: in_between(x) * 2)
    x = torch.ones(3)
    for _ in range(2):
        assert run(x).tolist() == [6, 6, 6]
    assert run.recordings[0].program is not None, run.report()
    scale = 0.0
    assert run(x).tolist() == [2, 2, 2]
    shared = torch.full((3,), 2.0)
    assert run(x).tolist() == [4, 4, 4]
    scale, shared = 2.0, torch.ones(3)


def test_training_and_evaluation_are_two():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    run = Captured(lambda x: net(x))
    x = torch.ones(2, 4)
    with torch.no_grad():
        assert not torch.equal(run(x), run(x))  # each replay draws anew
        net.eval()
        assert torch.equal(run(x), run(x))
        net.train()
        assert not torch.equal(run(x), run(x))


def test_reading_a_tensor_leaves_a_function_as_it_is_or_is_an_error():
    def positive(x):
        return x * 2 if x.sum().item() > 0 else x

    run = Captured(positive)
    assert run(torch.ones(2)).tolist() == [2, 2]
    assert run(-torch.ones(2)).tolist() == [-1, -1]
    assert "reads a tensor's elements" in run.report()
    assert "test_captured.py" in run.report()
    with pytest.raises(RuntimeError, match=r"fullgraph=True.*test_captured.py:\d+"):
        Captured(positive, strict=True)(torch.ones(2))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x[x > 0], "reads a tensor's elements"),
        (lambda x: x.numpy() + 1, "reads a tensor's elements"),
        (lambda x: bool((x > 0).all()), "reads a tensor's elements"),
    ],
)
def test_what_depends_on_data_runs_as_it_is(function, words):
    run = Captured(function)
    for sign in (1, -1):
        x = sign * torch.arange(1.0, 4)
        np.testing.assert_array_equal(np.asarray(run(x)), np.asarray(function(x)))
    assert words in run.report()


def test_results_that_share_memory_go_on_to_share_it():
    def function(x):
        y = x * 2
        return y, y[0], (y, y)

    run = Captured(function)
    for _ in range(3):
        whole, part, (one, other) = run(torch.ones(2))
        whole += 1
        assert float(part) == 3
        assert one is other is whole
    assert "two of its results share memory" in run.report()
    run = Captured(lambda x: [x + 1] * 2)
    for _ in range(3):
        one, other = run(torch.ones(2))
        assert one is other
    assert run.recordings[0].program is not None


def test_default_arguments_and_attributes_of_arguments_are_watched():
    def count(x, seen=[]):  # noqa: B006  a program may do so
        seen.append(1)
        return x * len(seen)

    run = Captured(count)
    assert [float(run(torch.ones(()))) for _ in range(4)] == [1, 2, 3, 4]

    class Holder:
        value = torch.zeros(())

    def add(holder):
        holder.value = holder.value + 1
        return holder.value * 1

    holder, run = Holder(), Captured(add)
    assert [float(run(holder)) for _ in range(4)] == [1, 2, 3, 4]


def test_random_numbers_of_python_and_numpy_are_drawn_each_time():
    for draw in (random.random, np.random.rand):
        run = Captured(lambda x, draw=draw: x * draw())
        assert len({float(run(torch.ones(()))) for _ in range(4)}) == 4
        assert "random numbers of Python" in run.report()


def test_observers_inside_hide_nothing_from_a_recording():
    def function(x):
        with FlopCounterMode(display=False):
            y = torch.zeros(3)
            y += x
            return (y @ torch.ones(3, 2)).clone()

    run = Captured(function)
    assert [run(torch.full((3,), float(k))).tolist() for k in range(3)] == [[0, 0], [3, 3], [6, 6]]
    assert run.recordings[0].program is not None, run.report()


class Trainer:
    """A loop in an object, as many programs have it."""

    def __init__(self, steps_schedule):
        torch.manual_seed(0)
        self.net = weights()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.5)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.scale, self.steps_schedule = 1.0, steps_schedule

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.net(x).pow(2).mean() * self.scale
        loss.backward()
        self.optimizer.step()
        if self.steps_schedule:
            self.schedule.step()
        return loss


@pytest.mark.parametrize("inside", [False, True])
def test_methods_see_their_object(inside):
    found = []
    for captured in (False, True):
        trainer = Trainer(inside)
        run = Captured(trainer.step) if captured else trainer.step
        losses = []
        for turn in range(9):
            trainer.scale = 1.0 if turn < 3 else 2.0
            losses.append(run(torch.ones(2, 3)).item())
            if not inside:
                trainer.schedule.step()
        found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    words = "it changes an attribute" if inside else "planned memory"
    assert words in run.report()


def test_what_python_changes_outside_is_not_lost():
    seen, counts = [], {"calls": 0}

    def function(x):
        seen.append(x.shape[0])
        counts["calls"] += 1
        return x + 1

    run = Captured(function)
    for _ in range(3):
        run(torch.ones(2))
    assert seen == [2, 2, 2]
    assert counts == {"calls": 3}
    assert "it changes a" in run.report() and "outside" in run.report()


def test_an_exception_leaves_nothing_behind():
    def fails(x):
        x.add_(1)
        raise KeyError("inside")

    run = Captured(fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            run(torch.ones(2))
    assert run.recordings == []


def test_two_functions_take_turns():
    a, b = weights(), weights()
    first, second = Captured(lambda x: a(x)), Captured(lambda x: b(x) + first(x))
    with torch.no_grad():
        for turn in range(4):
            x = torch.full((1, 3), float(turn))
            torch.testing.assert_close(second(x), a(x) + b(x))
            torch.testing.assert_close(first(x), a(x))


def test_versions_count_what_a_replay_writes():
    total = torch.zeros(3)

    def add(x):
        total.add_(x)

    run = Captured(add)
    for _ in range(3):
        before = total._version
        run(torch.ones(3))
        assert total._version > before
    assert total.tolist() == [3, 3, 3]


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a * 2 - b,
    lambda a, b: a.t(),
    lambda a, b: a[1:].sum(0, keepdim=True) + a,
    lambda a, b: a.clone().mul_(b),
    lambda a, b: torch.cat([a, b])[::2] + 0 * a[:1].sum(),
    lambda a, b: a @ b,
    lambda a, b: torch.softmax(a, 1),
    lambda a, b: a.reshape(-1).flip(0).view(4, 4),
    lambda a, b: a.diagonal().unsqueeze(1).expand(4, 4) * 0.5,
    lambda a, b: torch.where(a > b, a, b),
]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 5)), max_size=8),
       st.lists(st.integers(0, 6), max_size=3))  # fmt: skip
def test_programs_of_views_writes_and_aliases_agree(steps, writes):
    def function(x, y):
        values = [x, y]
        for which, other in steps:
            made = OPERATIONS[which](values[-1], values[other % len(values)])
            values.append(made)
            if len(values) - 1 in writes:
                values[-1 - len(values) // 2].clone()[:2].add_(1)
                made = made.clone()
                made[1:3] = values[0][:2]
                values[-1] = made
        return values[-1], values[len(values) // 2].sum()

    run = Captured(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.rand(4, 4) - 0.5, torch.rand(4, 4) - 0.5
        for found, exact in zip(run(x, y), function(x, y), strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)
    assert run.recordings[0].program is not None, run.report()


def test_an_op_of_the_library_is_no_object_of_the_program():
    activation = torch.nn.functional.selu  # it learns about new dtypes and shapes
    run = Captured(lambda x: activation(x))
    for _ in range(3):
        run(torch.ones(3, 5))
    assert run.recordings[0].program is not None, run.report()
