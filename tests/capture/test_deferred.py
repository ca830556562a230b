"""Work that waits gives what it would have given at once, whatever looks at it, and when."""

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember import nn
from ember.kernel.array import Queued
from ember.nn import functional as F
from tests.capture.test_captured import MODELS, OPTIMIZERS
from tests.capture.test_programs import MAKE, N, made, number, perform, written


def waits(tensor):
    return type(tensor._array.storage) is Queued


def train(model, optimizer, defer, steps=12, clip=False, device="cpu"):
    """The losses and the parameters of an unchanged loop, with a schedule."""
    torch.manual_seed(0)
    net = model().to(device)
    optimizer = OPTIMIZERS[optimizer](net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    data = torch.Generator().manual_seed(1)
    losses = []
    with torch.deferred(defer):
        for step in range(steps):
            rows = 6 if step % 5 < 4 else 3  # a small last batch
            x = torch.randn(rows, 12, generator=data).to(device)
            y = torch.randint(0, 4, (rows,), generator=data).to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        state = {k: v.detach().cpu().numpy() for k, v in net.state_dict().items()}
        return [loss.item() for loss in losses], state


def assert_same(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=2e-5)
    for name, value in other[1].items():
        np.testing.assert_allclose(one[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_is_the_same(model, optimizer):
    assert_same(train(model, optimizer, True), train(model, optimizer, False))


def test_gradients_may_be_clipped():
    found, exact = (train(MODELS[0], "adamw", d, clip=True) for d in (True, False))
    assert_same(found, exact)


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.one_of(made, made, written), min_size=1, max_size=14),
    st.lists(number, min_size=1, max_size=3),
)
def test_random_programs(steps, outs):
    runs = []
    for defer in (False, True):
        results = []
        state = torch.full((N, N), 0.25)
        with torch.deferred(defer):
            for seed in range(4):
                torch.manual_seed(seed)
                x, y = torch.rand(N, N) - 0.5, torch.rand(N, N) - 0.5
                try:
                    results += perform(steps, [x, y, state], outs)
                except RuntimeError as error:  # as of writes into what overlaps itself
                    results.append(str(error)[:40])
                    break
                results += [x, y, state.clone()]
        runs.append(results)
    for exact, found in zip(*runs, strict=True):
        if isinstance(exact, str):
            assert found == exact
        else:
            torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5, equal_nan=True)


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.one_of(made, made, written), min_size=1, max_size=10), st.integers(0, 9))
def test_random_programs_that_look_at_values(steps, every):
    runs = []
    for defer in (False, True):
        seen = []
        torch.manual_seed(3)
        with torch.deferred(defer):
            values = [torch.rand(N, N) - 0.5, torch.rand(N, N) - 0.5]
            shared = values[0].numpy()
            for turn in range(2):
                for position, (kind, which, first, second, i) in enumerate(steps):
                    a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
                    try:
                        found = kind[which](a, b, i)
                    except RuntimeError:
                        continue
                    if kind is MAKE:
                        values.append(found)
                    if position % 10 == every:
                        seen.append(values[-1].sum().item())
                        shared[turn] += 1.0
            seen += [v.tolist() for v in values]
        runs.append(seen)
    for exact, found in zip(*runs, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_work_waits_until_it_is_looked_at():
    with torch.deferred():
        x = torch.arange(4.0)
        y = x * 2 + 1
        assert waits(y) and waits(x)
        assert y.shape == (4,) and y.stride() == (1,) and y.untyped_storage().nbytes() == 16
        assert waits(y)
        assert y[2].item() == 5
        assert not waits(y) and not waits(x)


@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.tolist(),
        lambda t: t.numpy().tolist(),
        lambda t: np.asarray(t).tolist(),
        lambda t: [float(v) for v in t],
        lambda t: [1.0, 3.0] if repr(t) == "tensor([1., 3.])" else None,
        lambda t: [1.0, 3.0] if bool((t == t).all()) else None,
        lambda t: list(np.frombuffer(bytes(t.untyped_storage().tolist()), np.float32)),
        lambda t: list((ctypes.c_float * 2).from_address(t.data_ptr())),
        lambda t: np.from_dlpack(t).tolist(),
        lambda t: t[t > 0].tolist(),
        lambda t: [1.0, 3.0] if len(torch.nonzero(t)) == 2 else None,
        lambda t: t.clone().share_memory_().tolist(),
    ],
)
def test_every_way_to_look(look):
    with torch.deferred():
        x = torch.arange(2.0)
        assert look(x * 2 + 1) == [1, 3]
        x += 1
        assert look(x * 2 - 1) == [1, 3]


def test_the_end_of_a_block_is_the_end_of_waiting():
    with torch.deferred():
        y = torch.ones(3) * 2
        assert waits(y)
        with torch.deferred(False):
            assert not waits(y)
            assert not waits(y + 1)
        assert waits(y + 1)
    assert not waits(y)

    @torch.deferred()
    def double(x):
        y = x * 2
        assert waits(y)
        return y

    assert double(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("settings", [{"EMBER_DEFER": "1"}, {"EMBER_DEFER": "0"}, {},
                                      {"EMBER_DEFER": "1", "EMBER_EAGER": "1"}])  # fmt: skip
def test_switches(settings):
    code = """
import ember as torch
y = torch.ones(2) * 2
print(type(y._array.storage).__name__, y.tolist())
with torch.deferred():
    print(type((y * 2)._array.storage).__name__)
"""
    kept = {k: v for k, v in os.environ.items() if k not in ("EMBER_DEFER", "EMBER_EAGER")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | settings, capture_output=True, text=True
    )
    waits = settings.get("EMBER_DEFER") == "1" and "EMBER_EAGER" not in settings
    first = "Queued" if waits else "Storage"
    inside = "Storage" if "EMBER_EAGER" in settings else "Queued"
    assert done.stdout.split() == [first, "[2.0,", "2.0]", inside], done.stderr


def test_memory_shared_with_numpy():
    values = np.ones(3, np.float32)
    with torch.deferred():
        x = torch.from_numpy(values)
        doubled = x * 2
        values[:] = 5  # after the product, which waits
        again = x * 2
        assert doubled.tolist() == [2, 2, 2] and again.tolist() == [10, 10, 10]
        x += 1
        assert values.tolist() == [6, 6, 6]
        y = torch.ones(2) * 3
        shown = y.numpy()
        y += 1
        assert shown.tolist() == [4, 4]
        shown[0] = 9
        z = y + 0
        shown[0] = 1
        assert z.tolist() == [9, 4] and y.tolist() == [1, 4]


def test_parameters_shared_with_numpy():
    results = []
    for defer in (False, True):
        rng = np.random.default_rng(0)
        w, v, x = (torch.from_numpy(rng.normal(size=s)) for s in ((5, 4), (3, 5), (8, 4)))
        w, v = nn.Parameter(w), nn.Parameter(v)
        optimizer = torch.optim.Adam([w, v], weight_decay=0.1, amsgrad=True)
        with torch.deferred(defer):
            for _ in range(10):
                optimizer.zero_grad()
                ((x @ w.t()).tanh() @ v.t() - 1).square().mean().backward()
                optimizer.step()
            results.append((w.tolist(), v.tolist()))
    for found, exact in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_a_step_that_waits_and_its_memory():
    with torch.deferred():
        weight = torch.ones(3)
        shown = weight._array.host()
        weight.mul_(2)
        assert shown.tolist() == [1, 1, 1]  # not looked at through a tensor
        assert weight._array.host().tolist() == [2, 2, 2]


def test_errors_name_the_line():
    with torch.deferred():
        x = torch.ones(2, 2) * 2
        table = torch.zeros(4, 3) + 1
        index = torch.tensor([1, 7]) * 1
        with pytest.raises(IndexError):
            F.embedding(index, table)
        assert x.tolist() == [[2, 2], [2, 2]]
        assert table.sum().item() == 12


def test_a_failed_flush_leaves_nothing_half_done(monkeypatch):
    from ember.capture import each

    with torch.deferred():
        before = torch.ones(2)
        before.add_(1)
        kept = torch.zeros(2)
        product = kept @ torch.eye(2)  # this line
        kept.add_(5)
        later = product + 1
        run = each.Each._do

        def failing(self, work):
            if getattr(work.call, "name", "") == "matmul":
                raise ArithmeticError("no product today")
            run(self, work)

        monkeypatch.setattr(each.Each, "_do", failing)
        with pytest.raises(ArithmeticError, match="no product today") as caught:
            later.tolist()
        monkeypatch.undo()
        assert any("test_deferred.py:" in note for note in caught.value.__notes__)
        assert before.tolist() == [2, 2] and kept.tolist() == [0, 0]
        for lost in (product, later, later.view(2)):
            with pytest.raises(ArithmeticError):
                lost.tolist()
        assert (kept + 1).tolist() == [1, 1]
        with pytest.raises(ArithmeticError):
            (later + 1).tolist()


def test_an_interrupt(monkeypatch):
    from ember.capture import each

    run = each.Each._do
    with torch.deferred():
        x = torch.ones(2)
        y = (x * 3).exp()

        def interrupted(self, work):
            raise KeyboardInterrupt

        monkeypatch.setattr(each.Each, "_do", interrupted)
        with pytest.raises(KeyboardInterrupt):
            y.tolist()
        monkeypatch.setattr(each.Each, "_do", run)
        assert (x * 3).tolist() == [3, 3]


def test_an_exception_in_the_middle_of_a_step():
    results = []
    for defer in (False, True):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with torch.deferred(defer):
            for step in range(6):
                try:
                    optimizer.zero_grad()
                    loss = net(torch.full((2, 3), float(step))).pow(2).sum()
                    if step == 3:
                        raise ValueError
                    loss.backward()
                    if step == 4:
                        raise ValueError
                    optimizer.step()
                except ValueError:
                    continue
        results.append(net.weight.tolist())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def test_control_flow_and_accumulation():
    results = []
    for defer in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        seen = []
        with torch.deferred(defer):
            for step in range(9):
                x = torch.randn(5, 4)
                out = net(x).mean()
                if out > 0:
                    out = out * 2
                loss = (out - 1).square()
                loss.backward()
                if step % 3 == 2:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=step % 2 == 0)
                seen.append(float(loss))
        results.append((seen, net[0].weight.tolist()))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-5, atol=1e-7)


def test_two_models_by_turns():
    results = []
    for defer in (False, True):
        torch.manual_seed(0)
        nets = [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())]
        optimizers = [torch.optim.SGD(n.parameters(), lr=0.05) for n in nets]
        with torch.deferred(defer):
            for step in range(8):
                x = torch.full((3, 4), step / 8)
                fake = nets[0](x)
                optimizers[step % 2].zero_grad()
                (nets[1](fake) - x).square().mean().backward()
                optimizers[step % 2].step()
        results.append([p.tolist() for n in nets for p in n.parameters()])
    for exact, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-7)


def test_hooks_double_backward_and_no_grad():
    results = []
    for defer in (False, True):
        seen = []
        with torch.deferred(defer):
            x = torch.linspace(-1, 1, 5, requires_grad=True)
            y = (x**3 * 2).sum()
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            (h,) = torch.autograd.grad(g.sum(), x)
            net = nn.Linear(5, 5)
            with torch.no_grad():
                net.weight.copy_(torch.eye(5))
                net.bias.zero_()
            net.weight.register_hook(lambda g, seen=seen: seen.append(g.sum().item()) or g * 2)
            net.register_forward_hook(lambda m, a, out, seen=seen: seen.append(out.sum().item()))
            net(x).square().sum().backward()
            seen += [g.tolist(), h.tolist(), net.weight.grad.tolist(), x.grad.tolist()]
        results.append(seen)
    for exact, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_state_dicts_and_files(tmp_path):
    with torch.deferred():
        net = nn.Linear(3, 2)
        with torch.no_grad():
            net.weight.fill_(2)
            net.weight.mul_(3)
            kept = {k: v.clone() for k, v in net.state_dict().items()}
            torch.save(net.state_dict(), tmp_path / "state.pt")
            net.weight.add_(1)
        assert torch.load(tmp_path / "state.pt")["weight"].tolist() == [[6] * 3] * 2
        assert kept["weight"].tolist() == [[6] * 3] * 2
        net.load_state_dict(kept)
        assert net.weight.tolist() == [[6] * 3] * 2


def test_numbers_drawn_are_the_same():
    drawn = []
    for defer in (False, True):
        torch.manual_seed(5)
        with torch.deferred(defer):
            first = torch.rand(3)
            kept = F.dropout(first + 1, 0.5)
            torch.manual_seed(5)
            again = torch.rand(3) * 1
            drawn.append([first.tolist(), kept.tolist(), again.tolist(), torch.randn(2).tolist()])
    assert drawn[0] == drawn[1]


def test_threads():
    found = {}

    def work(number):
        x = torch.full((8,), float(number))
        for _ in range(50):
            x = x * 1.0 + 1
            if number % 2:
                x.sum().item()
        found[number] = x.tolist()

    with torch.deferred():
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {n: [n + 50.0] * 8 for n in range(4)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="systems without fork")
def test_a_fork_finds_no_work_that_waits():
    with torch.deferred():
        x = torch.ones(3) * 2
        assert waits(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if x.tolist() == [2, 2, 2] and not waits(x) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not waits(x)


def test_compiled_functions_inside():
    @torch.compile
    def step(x):
        return (x * 2).exp().sum()

    with torch.deferred():
        found = [step(torch.full((3,), n / 2) * 1).item() for n in range(4)]
    np.testing.assert_allclose(found, [3 * np.exp(n) for n in range(4)], rtol=1e-6)
    assert "steps" in step.report()


def test_scaled_half_precision():
    results = []
    for defer in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        with torch.deferred(defer):
            for step in range(6):
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(
                        net(torch.full((3, 8), step / 6)), torch.tensor([0, 1, 2])
                    )
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        results.append(net[0].weight.tolist())
    np.testing.assert_allclose(results[1], results[0], rtol=2e-2, atol=1e-3)
