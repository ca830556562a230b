"""The guard names the op, the phase, the line and the module of the first inf or NaN."""

import gc
import pickle
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import pytest

import ember as torch
from ember import nn
from ember.amp.overflow_guard import all_finite
from ember.core import engine
from ember.core.executor import current_executor

ROOT = Path(__file__).resolve().parents[2]


def line_of(text):
    """The line of this file with a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip() == text)


def trouble(parameter, step, **options):
    """The report of one step."""
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with torch.amp.guard(action="note", **options) as watch:
        step().backward()
        optimizer.step()
    assert current_executor() is None and engine.anomaly[0] is None
    return watch.reports


def leaf(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_half_overflow_in_the_forward():
    x = leaf(300.0, 2.0, dtype=torch.float16)

    def step():
        y = x * x
        return (y + 1).sum()

    (found,) = trouble(x, lambda: step() * float("nan"))
    assert found.op == "mul"  # inf in y; the NaN comes later
    x = leaf(300.0, 2.0, dtype=torch.float16)
    (found,) = trouble(x, lambda: (torch.exp(x) * 2).sum())
    assert (found.op, found.phase, found.made) == ("exp", "forward", "inf")
    assert "float16 ends at 65504" in found.remedy
    assert any("2 to 300 in magnitude" in operand for operand in found.operands)
    assert any("1 inf of 2" in operand for operand in found.operands)


def test_the_cast_that_overflows():
    x = leaf(1e5, 1.0)
    (found,) = trouble(x, lambda: (x.half() * x.half()).sum().float())
    assert found.op == "the cast to torch.float16"


class Layer(nn.Module):
    def forward(self, x):
        return x.log()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Identity(), Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_module_and_line():
    net, x = Net(), leaf(0.0, 1.0)
    (found,) = trouble(x, lambda: net(x).sum())
    assert (found.op, found.module, found.line) == (
        "log",
        "net.layers[1]",
        line_of("return x.log()"),
    )
    assert found.file == __file__ and "clamp" in found.remedy
    assert str(found).startswith("log made the first inf of this step, at ")


def test_backward_of_a_sound_forward():
    x = leaf(0.0, 4.0)

    def step():
        return x.sqrt().sum()

    (found,) = trouble(x, step)
    assert (found.op, found.phase, found.made, found.count) == ("sqrt", "backward", "inf", 1)
    assert found.line == line_of("return x.sqrt().sum()")
    assert "slope of sqrt at 0" in found.remedy


def test_a_deliberate_infinity_is_not_the_culprit():
    x = leaf(1.0, 2.0)
    mask = torch.tensor([True, True])
    (found,) = trouble(x, lambda: x.masked_fill(mask, float("-inf")).softmax(0).sum())
    assert (found.op, found.made) == ("softmax", "NaN")
    some = torch.tensor([True, False])
    assert trouble(x, lambda: x.masked_fill(some, float("-inf")).softmax(0)[1]) == []

    def masked_and_wrong():
        weights = x.masked_fill(some, float("-inf")).softmax(0)
        return (weights / (x - x)).sum()

    (found,) = trouble(x, masked_and_wrong)
    assert found.op in ("div", "true_divide")


def test_what_the_step_was_given():
    x = leaf(float("nan"), 1.0)
    (found,) = trouble(x, lambda: (x * x).sum())
    assert found.made == "" and "look at the data" in found.remedy


def test_values_that_were_written_over():
    x = leaf(0.0, 1.0)

    def step():
        y = 1 / x
        z = y.detach().clone()
        y.detach().zero_()
        return (z * x).sum()

    (found,) = trouble(x, step)
    assert found.op in ("reciprocal", "true_divide", "div", "rdiv")


def test_of_a_long_step_the_end_is_known():
    x = leaf(0.0, 1.0)

    def step():
        y = x.log()
        for _ in range(20):
            y = y + 1
        return (y * x).sum()

    (found,) = trouble(x, step, most=10)
    assert found.op in ("add", "mul", "log_backward_input") and found.count == 1


def test_dropout_is_not_drawn_again():
    x = leaf(*([1e38] * 64))

    def step():
        y = torch.nn.functional.dropout(x, 0.9)  # what is left is ten times as large
        return (y * 0.5).sum() * 0.0

    torch.manual_seed(0)
    (found,) = trouble(x, step)
    assert found.op in ("dropout", "mul", "div", "sum")
    state = torch.get_rng_state()
    torch.manual_seed(0)
    torch.nn.functional.dropout(x, 0.9)
    assert torch.equal(state, torch.get_rng_state())  # the search drew nothing


def test_the_search_writes_nothing():
    norm, x = nn.BatchNorm1d(2), leaf(0.0, 4.0)
    x.grad = torch.ones(2)
    (found,) = trouble(x, lambda: norm(x.sqrt().expand(3, 2) + torch.randn(3, 2)).sum())
    assert found.op == "sqrt"
    assert norm.num_batches_tracked.item() == 1


def test_simulated_gpus():
    code = (
        "import ember as torch\n"
        "torch.cuda.simulate(2)\n"
        "x = torch.tensor([0.0, 1.0], requires_grad=True)\n"
        "optimizer = torch.optim.SGD([x], lr=0.1)\n"
        "with torch.amp.guard(action='note') as watch, torch.devices.ledger() as copies:\n"
        "    y = x.cuda(0).log()\n"
        "    (y.to('cuda:1') * 2).sum().cpu().backward()\n"
        "    before = copies.totals()['all']['count']\n"
        "    optimizer.step()\n"
        "print(watch.reports[0].op, watch.reports[0].line, before)\n"
        "print(copies.totals()['all']['count'])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "log 6 6\n6\n"


def test_actions():
    x = leaf(0.0)
    optimizer = torch.optim.SGD([x], lr=0.1)
    with pytest.raises(torch.amp.NonFiniteError, match="sqrt") as caught, torch.amp.guard():
        x.sqrt().backward()
        optimizer.step()
    assert isinstance(caught.value, FloatingPointError) and caught.value.report.op == "sqrt"
    assert x.item() == 0  # it did not step
    x.grad = None
    seen = []
    with torch.amp.guard(action=seen.append):
        x.sqrt().backward()
        optimizer.step()
    assert [report.op for report in seen] == ["sqrt"]
    y = leaf(0.0)
    with torch.amp.guard(action="warn") as watch:
        y.sqrt().backward()
        with pytest.warns(UserWarning, match="the gradient of sqrt made the first inf"):
            watch.step(y.grad)
    with pytest.raises(ValueError, match="action"):
        torch.amp.guard(action="shout")


def test_blocks_without_steps_look_at_their_last_result():
    x = torch.zeros(2)
    with pytest.raises(torch.amp.NonFiniteError, match="log made the first"), torch.amp.guard():
        x.log() * 2
    with torch.amp.guard() as watch:
        (x + 1).log()
    assert watch.reports == []
    with pytest.raises(LookupError), torch.amp.guard():
        x.log()
        raise LookupError


def test_good_steps_let_everything_go():
    x = leaf(1.0, 2.0)
    optimizer = torch.optim.SGD([x], lr=0.1)
    with torch.amp.guard() as watch:
        for number in range(3):
            optimizer.zero_grad()
            (x * x).sum().backward()
            record = watch.record
            assert (record.following is None) is (number == 0)
            assert bool(record.entries) is (number == 0)  # later steps follow the first
            optimizer.step()
            assert record.entries == [] and record.position == 0 and not record._kept
    assert watch.reports == []


def test_inside_a_profile():
    x = leaf(0.0)
    optimizer = torch.optim.SGD([x], lr=0.1)
    with torch.profiler.profile() as profile, torch.amp.guard(action="note") as watch:
        x.sqrt().backward()
        optimizer.step()
    assert watch.reports[0].op == "sqrt"
    assert any("sqrt" in event.key for event in profile.key_averages())


def scaled_steps(scaler, count):
    weight = nn.Parameter(torch.full((4,), 2.0))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for _ in range(count):
        optimizer.zero_grad()
        loss = (weight.half() * 3).sum().float()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def test_the_scaler_explains():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17, explain=True)
    with pytest.warns(UserWarning, match=r"a step is skipped \(loss scale 131072\)"):
        scaled_steps(scaler, 1)
    found = scaler.last_overflow
    assert found.phase == "backward" and "loss scale" in found.remedy
    assert scaler.get_scale() == 2.0**16
    pickle.loads(pickle.dumps(scaler))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="loss scale 65536"):
            scaled_steps(scaler, 1)
    del scaler
    gc.collect()
    assert current_executor() is None


def test_a_scaler_explains_later_steps_that_follow_the_first():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, explain=True)
    weight = nn.Parameter(torch.full((4,), 2.0))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for number in range(6):
        optimizer.zero_grad()
        loss = (weight.half() * (60000.0 if number == 4 else 3.0)).sum().float()
        scaler.scale(loss).backward()
        record = scaler._watch.record
        assert (record.following is None) is (number in (0, 1, 5))  # the first makes the scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler.step(optimizer)
        assert (scaler.last_overflow is None) is (number < 4)
        scaler.update()
    found = scaler.last_overflow
    assert (found.op, found.phase, found.made) == ("mul", "forward", "inf")
    assert found.line == line_of(
        "loss = (weight.half() * (60000.0 if number == 4 else 3.0)).sum().float()"
    )


def test_a_scaler_that_does_not_explain_costs_nothing():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
    scaled_steps(scaler, 1)
    assert scaler.last_overflow is None and current_executor() is None


def test_ranges():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        net[0].weight.fill_(2.0), net[0].bias.fill_(1e-9)
    net[0].weight.grad = torch.ones(2, 2)
    found = torch.amp.ranges(net, torch.full((3, 2), 1e5), loss=lambda y: (y * 1e-10).sum())
    by = {(item.layer, item.kind): item for item in found}
    assert by["0", "output"].largest == 4e5
    assert by["0", "output"].verdict(torch.float16) == "no"
    assert by["0", "output"].verdict(torch.bfloat16) == "yes"
    assert by["0", "bias"].verdict(torch.float16) == "no"  # it would become 0
    assert by["0", "weight"].verdict(torch.float8_e4m3fn) == "yes"
    assert by["1", "gradient"].verdict(torch.float16) == "no"
    assert net[0].weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert torch.amp.ranges(net, (torch.full((1, 2), float("inf")),))[2].bad == 2
    assert not net[0]._forward_hooks


def test_the_example(tmp_path):
    picture = tmp_path / "ranges.png"
    options = []
    try:
        import matplotlib  # noqa: F401

        options = ["--picture", str(picture)]
    except ImportError:
        pass
    command = [sys.executable, "-m", "ember", "run", "examples/overflow.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    text = done.stdout
    assert "mul made the first inf of this step, at examples/overflow.py:22 in model[1]" in text
    assert "the gradient of the cast to torch.float32 made the first inf of this step" in text
    assert "│ 1.second │ output   │" in text
    assert not options or picture.read_bytes()[:4] == b"\x89PNG"


# steps that follow an earlier one


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x, shift):
        y = self.drop(self.first(x))
        return (y - shift).exp()


def test_later_steps_are_explained_as_the_first():
    torch.manual_seed(0)
    net = Noisy()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    with torch.amp.guard(action="note") as watch:
        for number in range(6):
            x, shift = torch.randn(4, 8), 1000.0 if number < 5 else -200.0
            optimizer.zero_grad()
            net(x, shift).mean().backward()
            assert (watch.record.following is None) is (number == 0)
            optimizer.step()
    (found,) = watch.reports
    assert (found.op, found.phase, found.made) == ("exp", "forward", "inf")
    assert found.module == "net" and found.line == line_of("return (y - shift).exp()")
    largest = float(found.operands[0].split(" to ")[1].split()[0])
    assert 198 < largest < 205  # of this step, not of the one that it followed
    assert found.count == 2


def test_a_replay_draws_the_same_numbers():
    x = torch.full((64,), 1e38, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.0)
    torch.manual_seed(3)
    with torch.amp.guard(action="note") as watch:
        for scale in (1e-3, 1e-3, 1.0):
            optimizer.zero_grad()
            kept = torch.nn.functional.dropout(x * scale, 0.9)
            (kept * 2.0).sum().backward()
            state = torch.get_rng_state()
            optimizer.step()
            assert torch.equal(state, torch.get_rng_state())
    (found,) = watch.reports
    assert found.op in ("dropout", "mul", "div") and found.made == "inf"
    if found.op == "mul":
        count = int(kept.isinf().sum()) or int((kept * 2.0).isinf().sum())
        assert f"{count} inf of 64" in found.operands[-1]


def test_steps_that_take_turns():
    x, y = leaf(1.0, 4.0), leaf(1.0, 4.0)
    first, second = torch.optim.SGD([x], lr=0.0), torch.optim.SGD([y], lr=0.0)
    with torch.amp.guard(action="note") as watch:
        for number in range(8):
            first.zero_grad(), second.zero_grad()
            (x * 2.0).sum().backward()
            first.step()
            (y.detach() * y - (4.0 if number == 7 else 0.5)).log().sum().backward()
            assert (watch.record.following is None) is (number == 0)
            second.step()
    (found,) = watch.reports
    assert found.op == "log" and found.made == "NaN"
    assert len(watch.record._templates) == 0


def test_other_shapes_and_other_ways():
    x = leaf(1.0, 4.0)
    optimizer = torch.optim.SGD([x], lr=0.0)
    found = []
    with torch.amp.guard(action=found.append) as watch:
        for number in range(12):
            optimizer.zero_grad()
            batch = torch.ones(3 if number % 4 == 3 else 5, 2)
            loss = ((x - float(number == 10)) * batch).log().sum()
            if number == 10:
                loss = loss + 1  # a way that no step took before
            loss.backward()
            assert (watch.record.following is None) is (number in (0, 3, 10, 11))
            optimizer.step()
    report = found[0]  # SGD then spoils x, as 0 times inf is NaN
    assert (report.op, report.line) == (
        "log",
        line_of("loss = ((x - float(number == 10)) * batch).log().sum()"),
    )


def test_what_a_step_writes_before_it_goes_its_own_way():
    x = leaf(1.0, 0.0)
    optimizer = torch.optim.SGD([x], lr=0.0)
    with torch.amp.guard(action="note") as watch:
        for number in range(4):
            optimizer.zero_grad()
            (x + (0.0 if number == 3 else 1.0)).sqrt().sum().backward()
            if number == 3:
                torch.nn.utils.clip_grad_norm_([x], 1e9)
            optimizer.step()
    (found,) = watch.reports
    assert (found.op, found.phase, found.made) == ("sqrt", "backward", "inf")


def test_steps_that_never_repeat_are_noted_in_full():
    x = leaf(1.0, 4.0)
    optimizer = torch.optim.SGD([x], lr=0.0)
    with torch.amp.guard(action="note") as watch:
        for number in range(40):
            optimizer.zero_grad()
            (x - float(number == 39)).expand(number + 1, 2).log().sum().backward()
            optimizer.step()
        assert watch.record._misses >= 16 and watch.record.following is None
    assert watch.reports[0].op == "log"


def test_following_keeps_no_activation():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = []
    net[1].register_forward_hook(lambda m, a, out: seen.append(weakref.ref(out._array.storage)))
    with torch.amp.guard() as watch:
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(2, 4)).sum().backward()
            assert seen[-1]() is None
            optimizer.step()
    assert watch.reports == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_one_flag_for_all_gradients(dtype):
    fine = torch.ones(3, 4, dtype=dtype)
    assert all_finite([fine._array, (fine * 100)[:, ::2]._array, fine[:0]._array])
    large = torch.full((3, 4), torch.finfo(dtype).max, dtype=dtype)
    assert all_finite([large._array, torch.ones(2, dtype=torch.int64)._array])
    for value in (float("inf"), float("-inf"), float("nan")):
        bad = fine.clone()
        bad[2, 3] = value
        assert not all_finite([fine._array, bad._array])
        assert not all_finite([large._array, bad.t()._array])
        assert not all_finite([bad[:, 3:]._array]) and all_finite([bad[:2]._array])
