"""Averaged models, their batch statistics, and the schedule that goes with them."""

import pytest

import ember
from ember import nn
from ember.optim import SGD, swa_utils


def filled(model, value):
    with ember.no_grad():
        for p in model.parameters():
            p.fill_(value)
    return model


def test_equal_weights():
    model = nn.Linear(2, 1)
    average = swa_utils.AveragedModel(model)
    for value in (1.0, 2.0, 6.0):
        average.update_parameters(filled(model, value))
    assert average.module.weight.tolist() == [[3.0, 3.0]]
    assert average.n_averaged.item() == 3 and average.n_averaged.dtype == ember.int64
    assert list(average.state_dict()) == ["n_averaged", "module.weight", "module.bias"]
    assert average(ember.ones(1, 2)).item() == pytest.approx(9.0)
    assert model.weight.tolist() == [[6.0, 6.0]]


@pytest.mark.parametrize("many", [False, True])
def test_exponential_average(many):
    model = nn.Linear(2, 1)
    options = (
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}
        if many
        else {"avg_fn": swa_utils.get_ema_avg_fn(0.75)}
    )
    average = swa_utils.AveragedModel(model, **options)
    for value in (1.0, 2.0, 6.0):
        average.update_parameters(filled(model, value))
    assert average.module.bias.tolist() == [2.4375]  # 0.75·(0.75·1 + 0.25·2) + 0.25·6


def test_the_named_average_functions_agree():
    model = nn.Linear(2, 1)
    averages = [
        swa_utils.AveragedModel(model, avg_fn=swa_utils.get_swa_avg_fn()),
        swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_swa_multi_avg_fn()),
    ]
    for value in (1.0, 2.0, 6.0):
        filled(model, value)
        for average in averages:
            average.update_parameters(model)
    assert all(a.module.bias.item() == pytest.approx(3.0) for a in averages)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_copied_or_averaged(use_buffers):
    model = nn.BatchNorm1d(1)
    average = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        model.running_mean.fill_(value)
        average.update_parameters(model)
    assert average.module.running_mean.item() == (2.0 if use_buffers else 3.0)


def test_batch_statistics_are_computed_anew():
    model = nn.Sequential(nn.BatchNorm1d(1))
    model.eval()
    batches = [ember.tensor([[0.0], [2.0]]), [ember.tensor([[4.0], [8.0]]), "label"]]
    swa_utils.update_bn(batches, model)
    layer = model[0]
    assert layer.running_mean.item() == 3.5 and layer.running_var.item() == 5.0
    assert layer.momentum == 0.1 and not model.training and layer.num_batches_tracked.item() == 2
    assert swa_utils.update_bn(batches, nn.Linear(1, 1)) is None


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [0.1, 0.09877641290737885, 0.0952254248593737, 0.08969463130731184]),
        (
            {"anneal_epochs": 3, "anneal_strategy": "linear"},
            [0.1, 0.08333333333333334, 0.06666666666666668, 0.05],
        ),
        ({"anneal_epochs": 0}, [0.05, 0.05, 0.05, 0.05]),
    ],
)
def test_rates(options, rates):
    optimizer = SGD([nn.Parameter(ember.ones(1))], lr=0.1)
    scheduler = swa_utils.SWALR(optimizer, 0.05, **options)
    found = scheduler.get_last_lr()
    for _ in range(3):
        optimizer.step()
        scheduler.step()
        found += scheduler.get_last_lr()
    assert found == rates
    assert optimizer.param_groups[0]["swa_lr"] == 0.05


def test_bad_arguments():
    model = nn.Linear(1, 1)
    optimizer = SGD(model.parameters(), lr=0.1)
    ema, multi = swa_utils.get_ema_avg_fn(), swa_utils.get_ema_multi_avg_fn()
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be"):
        swa_utils.AveragedModel(model, avg_fn=ema, multi_avg_fn=multi)
    with pytest.raises(ValueError, match="Invalid decay value 2.0 provided"):
        swa_utils.get_ema_multi_avg_fn(2.0)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear'"):
        swa_utils.SWALR(optimizer, 0.05, anneal_strategy="x")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        swa_utils.SWALR(optimizer, 0.05, anneal_epochs=-1)
    with pytest.raises(ValueError, match="swa_lr must have the same length"):
        swa_utils.SWALR(optimizer, [0.05, 0.1])
