"""Every schedule against rates recorded from PyTorch 2.13; state, warnings and errors."""

import json
import warnings

import pytest

import ember
from ember.optim import SGD, Adagrad, lr_scheduler
from tests.optim.scheduler_cases import (
    CASES,
    RECORDED,
    RESUMED,
    STEPS,
    everything,
    jump,
    optimizer_of,
    resume,
    run,
)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


def plain(tree):
    return json.loads(json.dumps(tree))


def test_all_schedules_are_covered():
    names = {name.split(" ")[0] for name in CASES}
    assert names == set(lr_scheduler.__all__) - {"LRScheduler"}


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", CASES)
def test_rates_and_state(name, kind, recorded):
    """To the last bit: the same operations on the same Python numbers."""
    assert plain(run(ember, name, kind)) == recorded["runs"][f"{name} {kind}"]


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_at_a_later_epoch(name, recorded):
    assert [resume(ember, name, epoch) for epoch in range(6)] == recorded["resumed"][name]


@pytest.mark.parametrize("name", RESUMED)
def test_going_to_an_epoch(name, recorded):
    assert jump(ember, name) == recorded["jumps"][name]


@pytest.mark.oracle
def test_recorded_rates_are_pytorchs(recorded):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert everything(torch) == recorded


@pytest.mark.parametrize("name", CASES)
def test_state_dict_round_trip(name):
    """A schedule that loads the state of another goes on as that one does."""

    def advance(scheduler, count):
        rates = []
        for step in range(count):
            scheduler.optimizer.step()
            scheduler.step(*([1.0 - 0.1 * step] if name.startswith("Reduce") else []))
            rates.append([g["lr"] for g in scheduler.optimizer.param_groups])
        return rates

    first = CASES[name](lr_scheduler, optimizer_of(ember))
    advance(first, 5)
    optimizer = optimizer_of(ember)
    second = CASES[name](lr_scheduler, optimizer)
    optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    assert plain(second.state_dict()) == plain(first.state_dict())
    assert advance(second, 5) == advance(first, 5)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_state_dicts_load_both_ways(name):
    torch = pytest.importorskip("torch")
    for source, target in ((ember, torch), (torch, ember)):
        first = CASES[name](source.optim.lr_scheduler, optimizer_of(source))
        second = CASES[name](target.optim.lr_scheduler, optimizer_of(target))
        for _ in range(3):
            first.optimizer.step()
            first.step(*([1.0] if name.startswith("Reduce") else []))
        second.load_state_dict(first.state_dict())
        assert plain(second.state_dict()) == plain(first.state_dict())


def sgd(groups=1, lr=0.1, **options):
    options.setdefault("momentum", 0.9)
    params = [{"params": [ember.nn.Parameter(ember.ones(2))]} for _ in range(groups)]
    return SGD(params, lr=lr, **options)


def test_stepping_before_the_optimizer_warns():
    scheduler = lr_scheduler.StepLR(sgd(), 3)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    scheduler.step()  # said once


def test_an_overridden_step_warns():
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        scheduler.step()


def test_get_lr_outside_of_a_step_warns():
    scheduler = lr_scheduler.ExponentialLR(sgd(), 0.5)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()


def test_an_epoch_warns():
    scheduler = lr_scheduler.ExponentialLR(sgd(), 0.5)
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
        scheduler.step(2)
    assert scheduler.get_last_lr() == [0.025]


def test_a_rate_tensor_is_filled_in_place():
    rate = ember.tensor(0.5)
    scheduler = lr_scheduler.StepLR(sgd(lr=rate), 1, 0.5)
    scheduler.optimizer.step()
    scheduler.step()
    group = scheduler.optimizer.param_groups[0]
    assert group["lr"] is rate and rate.item() == 0.25
    assert group["initial_lr"].item() == 0.5 and scheduler.get_last_lr()[0].item() == 0.25


def test_a_group_added_later():
    optimizer = sgd()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    optimizer.add_param_group({"params": [ember.nn.Parameter(ember.ones(1))], "lr": 1.0})
    for _ in range(2):
        scheduler.step(1.0)
    assert scheduler.get_last_lr() == [0.05, 0.5]
    fixed = lr_scheduler.ReduceLROnPlateau(sgd(), patience=0, min_lr=[0.01])
    fixed.optimizer.add_param_group({"params": [ember.nn.Parameter(ember.ones(1))]})
    fixed.step(1.0)
    with pytest.raises(
        RuntimeError, match=r"differs from when `ReduceLROnPlateau` was initialized"
    ):
        fixed.step(1.0)


def test_the_old_base_class_is_a_base():
    class Halving(lr_scheduler._LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    scheduler = Halving(sgd(2))
    scheduler.optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.05]
    with pytest.raises(NotImplementedError):
        lr_scheduler.LRScheduler(sgd())


def test_schedules_leave_no_cycle_that_keeps_the_optimizer():
    import gc
    import weakref

    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    reference = weakref.ref(optimizer)
    del optimizer, scheduler
    gc.collect()
    assert reference() is None


A, B = sgd(), sgd()
one_cycle, cyclic = lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR
restarts, plateau = lr_scheduler.CosineAnnealingWarmRestarts, lr_scheduler.ReduceLROnPlateau
sequence, chain, constant = (
    lr_scheduler.SequentialLR,
    lr_scheduler.ChainedScheduler,
    lr_scheduler.ConstantLR,
)
BAD = [
    (lambda: lr_scheduler.StepLR(5, 3), TypeError, "int is not an Optimizer"),
    (lambda: lr_scheduler.StepLR(sgd(), 3, last_epoch=2), KeyError, "param 'initial_lr' is not"),
    (lambda: lr_scheduler.LambdaLR(sgd(2), [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
    (
        lambda: lr_scheduler.MultiplicativeLR(sgd(2), [abs]),
        ValueError,
        "Expected 2 lr_lambdas, but got 1",
    ),
    (lambda: constant(sgd(), 2), ValueError, "Constant multiplicative factor expected to be"),
    (lambda: lr_scheduler.LinearLR(sgd(), 0), ValueError, "Starting multiplicative factor"),
    (lambda: lr_scheduler.LinearLR(sgd(), 1, 2), ValueError, "Ending multiplicative factor"),
    (lambda: one_cycle(sgd(), 1), ValueError, "You must define either total_steps OR (epochs"),
    (lambda: one_cycle(sgd(), 1, -1), ValueError, "Expected positive integer total_steps, but"),
    (lambda: one_cycle(sgd(), 1, None, 2, 0), ValueError, "positive integer steps_per_epoch, but"),
    (lambda: one_cycle(sgd(), 1, 5, pct_start=2.0), ValueError, "Expected float between 0 and 1"),
    (lambda: one_cycle(sgd(), 1, 5, anneal_strategy="x"), ValueError, "one of 'cos' or 'linear'"),
    (lambda: one_cycle(sgd(), [1, 2], 5), ValueError, "max_lr must have the same length as"),
    (
        lambda: one_cycle(Adagrad([ember.nn.Parameter(ember.ones(1))]), 1, 5),
        ValueError,
        "optimizer must support momentum or beta1",
    ),
    (lambda: cyclic(sgd(), 0.1, 0.2, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
    (lambda: cyclic(sgd(), [0.1, 0.2], 0.2), ValueError, "base_lr must have the same length as"),
    (lambda: restarts(sgd(), 0), ValueError, "Expected positive integer T_0, but got 0"),
    (lambda: restarts(sgd(), 1, 0), ValueError, "Expected integer T_mult >= 1, but got 0"),
    (lambda: restarts(sgd(), 1, 1, "a"), ValueError, "Expected float or int eta_min, but got a"),
    (lambda: restarts(sgd(), 1).step(-1), ValueError, "Expected non-negative epoch, but got -1"),
    (lambda: plateau(sgd(), factor=1.0), ValueError, "Factor should be < 1.0."),
    (lambda: plateau(sgd(), "x"), ValueError, "mode x is unknown!"),
    (lambda: plateau(sgd(), threshold_mode="x"), ValueError, "threshold mode x is unknown!"),
    (lambda: plateau(sgd(), min_lr=[1, 2]), ValueError, "expected 1 min_lrs, got 2"),
    (lambda: plateau(5), TypeError, "int is not an Optimizer"),
    (lambda: sequence(A, [], []), ValueError, "expects at least one scheduler, but got no"),
    (lambda: sequence(A, [constant(A)], [3]), ValueError, "one more than the number of milestone"),
    (
        lambda: sequence(A, [constant(B), constant(A)], [3]),
        ValueError,
        "expects all schedulers to belong to the same optimizer, but got scheduler ConstantLR",
    ),
    (
        lambda: sequence(A, [plateau(A), constant(A)], [3]),
        ValueError,
        "does not support `ReduceLROnPlateau` scheduler",
    ),
    (
        lambda: sequence(A, [constant(A), 3], [3]),
        TypeError,
        "SequentialLR at index 1 should have `optimizer` as its attribute.",
    ),
    (lambda: chain([]), ValueError, "expects at least one scheduler to be chained"),
    (lambda: chain([constant(A), constant(B)]), ValueError, "to belong to the same optimizer"),
    (lambda: chain([constant(A)], B), ValueError, "which is different from SGD."),
    (lambda: chain([constant(A), 3]), TypeError, "ChainedScheduler at index 1 should have"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_arguments(number):
    make, kind, message = BAD[number]
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)


def test_one_cycle_ends():
    scheduler = one_cycle(sgd(), 1.0, total_steps=2, pct_start=0.6)
    for _ in range(2):
        scheduler.optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times. The specified number of total"):
        scheduler.step()


def test_steps_are_counted():
    scheduler = lr_scheduler.StepLR(sgd(), 3)
    assert (scheduler.last_epoch, scheduler._step_count) == (0, 1)
    for _ in range(STEPS):
        scheduler.optimizer.step()
        scheduler.step()
    assert (scheduler.last_epoch, scheduler._step_count) == (STEPS, STEPS + 1)
