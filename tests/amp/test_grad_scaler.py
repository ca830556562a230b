"""GradScaler: scaling, unscaling, skipped steps, growth and backoff, checkpoints, bad use."""

import pickle

import pytest

import ember
from ember.amp import GradScaler
from ember.optim import SGD, Adam


def setup(dtype=None, lr=1.0, **options):
    weight = ember.nn.Parameter(ember.ones(2, dtype=dtype or ember.float32))
    options.setdefault("init_scale", 16.0)
    return weight, SGD([weight], lr=lr), GradScaler("cpu", **options)


def good_step(weight, optimizer, scaler):
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_a_step_is_that_of_the_unscaled_loss():
    weight, optimizer, scaler = setup(lr=0.5)
    scaled = scaler.scale((weight * 2).sum())
    assert scaled.item() == 64.0
    scaled.backward()
    assert weight.grad.tolist() == [32.0, 32.0]
    assert scaler.step(optimizer) is None
    scaler.update()
    assert weight.tolist() == [0.0, 0.0] and weight.grad.tolist() == [2.0, 2.0]


def test_bfloat16_gradients_are_unscaled_and_float16_ones_refused():
    weight, optimizer, scaler = setup(ember.bfloat16, lr=0.5)
    good_step(weight, optimizer, scaler)
    assert weight.tolist() == [0.5, 0.5]
    weight, optimizer, scaler = setup(ember.float16)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients."):
        scaler.step(optimizer)
    assert weight.grad.tolist() == [16.0, 16.0] and weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_a_step_with_infinities_is_skipped_and_the_factor_backs_off(bad):
    weight, optimizer, scaler = setup()
    other = ember.nn.Parameter(ember.ones(3))
    optimizer.add_param_group({"params": [other]})
    loss = scaler.scale((weight * ember.tensor([1.0, bad])).sum() + other.sum())
    loss.backward()
    scaler.step(optimizer)
    assert weight.tolist() == [1.0, 1.0] and other.tolist() == [1.0, 1.0, 1.0]
    scaler.update()
    assert scaler.get_scale() == 8.0 and scaler._get_growth_tracker() == 0


def test_the_factor_grows_after_enough_good_steps():
    weight, optimizer, scaler = setup(growth_interval=3, growth_factor=4.0)
    factors = []
    for _ in range(7):
        good_step(weight, optimizer, scaler)
        factors.append((scaler.get_scale(), scaler._get_growth_tracker()))
    assert factors == [(16, 1), (16, 2), (64, 0), (64, 1), (64, 2), (256, 0), (256, 1)]


def test_a_bad_step_starts_the_count_anew():
    weight, optimizer, scaler = setup(growth_interval=2, backoff_factor=0.25)
    good_step(weight, optimizer, scaler)
    optimizer.zero_grad()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), scaler._get_growth_tracker()) == (4.0, 0)
    good_step(weight, optimizer, scaler)
    assert (scaler.get_scale(), scaler._get_growth_tracker()) == (4.0, 1)


def test_the_factor_does_not_grow_to_infinity():
    weight, optimizer, scaler = setup(init_scale=2.0**127, growth_interval=1)
    weight.grad = ember.zeros(2)
    scaler.scale(ember.ones(1))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_unscaling_early_for_clipping():
    weight, optimizer, scaler = setup()
    scaler.scale((weight * ember.tensor([30.0, 40.0])).sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [30.0, 40.0]
    ember.nn.utils.clip_grad_norm_([weight], 5.0)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == pytest.approx([-2.0, -3.0], abs=1e-5)


def test_two_optimizers_share_a_scaler():
    scaler = GradScaler("cpu", init_scale=4.0)
    weights = [ember.nn.Parameter(ember.ones(1)) for _ in range(2)]
    optimizers = [SGD([weights[0]], lr=1.0), Adam([weights[1]], lr=1.0)]
    scaler.scale(weights[0].sum() + (weights[1] * float("inf")).sum()).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    assert weights[0].item() == 0.0 and weights[1].item() == 1.0
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_the_step_returns_what_the_optimizer_returns():
    weight, optimizer, scaler = setup()
    scaler.scale(weight.sum()).backward()
    assert scaler.step(optimizer, lambda: "loss") == "loss"


def test_outputs_of_all_kinds():
    _, _, scaler = setup()
    first, (second,) = scaler.scale([ember.ones(1), (ember.ones(1),)])
    assert first.item() == second.item() == 16.0
    assert [t.item() for t in scaler.scale(iter([ember.ones(1)]))] == [16.0]
    assert scaler.scale(ember.ones(1).half()).dtype == ember.float16
    for bad in (5, [5]):
        with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
            scaler.scale(bad)


def test_disabled_passes_everything_through():
    weight, optimizer, scaler = setup(ember.float16, lr=0.5, enabled=False)
    loss = (weight * 2).sum()
    assert scaler.scale(loss) is loss and scaler.scale(5) == 5
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0, 0.0] and scaler.get_scale() == 1.0
    assert scaler.state_dict() == {} and not scaler.is_enabled()
    scaler.load_state_dict({})


def test_no_gpu_warns_and_disables(no_gpus):
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_order_of_calls():
    weight, optimizer, scaler = setup()
    for call, name in ((scaler.unscale_, "unscale_"), (scaler.step, "step")):
        with pytest.raises(AssertionError, match=f"Attempted {name} but _scale is None"):
            call(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"):
        scaler.update()
    scaler.scale(ember.ones(1))
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer."):
        scaler.step(optimizer)
    scaler.update(16.0)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update."):
        scaler.update()
    weight.grad = ember.ones(2)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 1)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)."):
        scaler.unscale_(optimizer)


def test_setting_the_factor():
    weight, optimizer, scaler = setup()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update(8.0)
    assert scaler.get_scale() == 8.0
    scaler.update(ember.tensor(4.0))
    assert scaler.get_scale() == 4.0
    for bad in (ember.ones(2), ember.ones(1, requires_grad=True)):
        with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
            scaler.update(bad)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(7)
    assert scaler.get_growth_factor() == 3.0 and scaler.get_backoff_factor() == 0.1
    assert scaler.get_growth_interval() == 7


def test_bad_options():
    with pytest.raises(AssertionError, match="The growth factor must be > 1.0."):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="The backoff factor must be < 1.0."):
        GradScaler("cpu", backoff_factor=1.0)


def test_state_dict():
    weight, optimizer, scaler = setup(growth_interval=3)
    good_step(weight, optimizer, scaler)
    saved = scaler.state_dict()
    assert saved == {
        "scale": 16.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 1,
    }
    again = GradScaler("cpu")
    again.load_state_dict(saved)
    assert again.state_dict() == saved
    for _ in range(2):
        good_step(weight, optimizer, again)
    assert again.get_scale() == 32.0
    again.load_state_dict(saved)
    assert again.state_dict() == saved
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})


def test_pickling_between_iterations_only():
    weight, optimizer, scaler = setup(growth_interval=3)
    good_step(weight, optimizer, scaler)
    again = pickle.loads(pickle.dumps(scaler))
    assert again.state_dict() == scaler.state_dict()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        pickle.dumps(scaler)


def test_optimizers_that_unscale_themselves():
    class Own(SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            self.seen = (self.grad_scale, self.found_inf.item())

    weight, _, scaler = setup()
    optimizer = Own([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert optimizer.seen[0].item() == 16.0 and optimizer.seen[1] == 0.0
    assert not hasattr(optimizer, "grad_scale") and weight.grad.tolist() == [16.0, 16.0]
    scaler.update()
    weight.grad = ember.tensor([1.0, float("nan")])
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen == (None, 1.0)

    class Old(SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, grad_scaler=None):
            return grad_scaler

    weight, _, scaler = setup()
    scaler.scale(weight.sum()).backward()
    with pytest.warns(FutureWarning, match="going to stop passing itself as a keyword argument"):
        assert scaler.step(Old([weight], lr=1.0)) is scaler


def test_gradients_on_two_gpus(gpus):
    weights = [ember.nn.Parameter(ember.ones(1, device=f"cuda:{i}")) for i in range(2)]
    optimizer = SGD(weights, lr=1.0)
    scaler = GradScaler("cuda", init_scale=4.0)
    losses = [scaler.scale(w.sum()) for w in weights]
    assert [loss.device.index for loss in losses] == [0, 1]
    for loss in losses:
        loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert [w.item() for w in weights] == [0.0, 0.0]
    weights[1].grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert [w.item() for w in weights] == [0.0, 0.0] and scaler.get_scale() == 2.0


@pytest.mark.oracle
def test_state_dicts_load_both_ways():
    torch = pytest.importorskip("torch")
    for first, second in ((ember, torch), (torch, ember)):
        scaler = first.amp.GradScaler("cpu", init_scale=4.0, growth_interval=5)
        scaler.scale(first.ones(1))
        again = second.amp.GradScaler("cpu")
        again.load_state_dict(scaler.state_dict())
        assert again.state_dict() == scaler.state_dict()
