"""Every layer against values recorded from PyTorch 2.13, and its errors."""

import json

import pytest

import ember
from ember import nn
from tests.nn.layer_cases import CASES, RECORDED, run_case


def assert_same(found, wanted, tolerance):
    assert found["repr"] == wanted["repr"] and found["shapes"] == wanted["shapes"]
    for mine, theirs in zip(found["outputs"], wanted["outputs"], strict=True):
        assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance)
    assert list(found["buffers"]) == list(wanted["buffers"])
    for name, values in wanted["buffers"].items():
        assert found["buffers"][name] == pytest.approx(values, abs=tolerance, rel=tolerance)
    for mine, theirs in zip(found["gradients"], wanted["gradients"], strict=True):
        if theirs is None:
            assert mine is None
        else:
            assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


@pytest.mark.parametrize("name", CASES)
def test_recorded_values(name, recorded):
    assert_same(run_case(ember, name), recorded[name], 2e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_live_values(name):
    torch = pytest.importorskip("torch")
    assert_same(run_case(ember, name, "float64"), run_case(torch, name, "float64"), 1e-6)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: nn.Bilinear(0, 1, 1), ValueError, "in1_features must be > 0, but got"),
        (lambda: nn.Hardtanh(2, 1), AssertionError, r"max_val \(1\) must be greater than min_val"),
        (lambda: nn.Dropout(2), ValueError, "dropout probability has to be between 0 and 1"),
        (lambda: nn.GroupNorm(2, 5), ValueError, r"num_channels \(5\) must be divisible by"),
        (lambda: nn.Embedding(3, 4, 5), AssertionError, "Padding_idx must be within num_embed"),
        (
            lambda: nn.Embedding(2, 2, _weight=ember.zeros(3, 3)),
            AssertionError,
            "Shape of weight does not match num_embeddings and embedding_dim",
        ),
        (
            lambda: nn.Embedding.from_pretrained(ember.zeros(3)),
            AssertionError,
            "Embeddings parameter is expected to be 2-dimensional",
        ),
        (lambda: nn.Unflatten(1, 3), TypeError, "unflattened_size must be a tuple of ints"),
        (
            lambda: nn.Unflatten(1, [2, "3"]),
            TypeError,
            "unflattened_size must be tuple of ints, but found element of type str at pos 1",
        ),
        (lambda: nn.MultiMarginLoss(p=3), ValueError, "only p == 1 and p == 2 supported"),
        (lambda: nn.TripletMarginLoss(margin=-1), ValueError, "expected margin to be greater"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [3, 2]),
            ValueError,
            "cutoffs should be a sequence of unique, positive integers",
        ),
        (
            lambda: nn.LinearCrossEntropyOptions(acc_policy="x"),
            ValueError,
            "invalid acc_policy: 'x'",
        ),
    ],
)
def test_refused_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("layer", "dims", "message"),
    [
        (nn.BatchNorm1d(2), 4, "expected 2D or 3D input (got 4D input)"),
        (nn.BatchNorm2d(2), 3, "expected 4D input (got 3D input)"),
        (nn.BatchNorm3d(2), 4, "expected 5D input (got 4D input)"),
        (nn.SyncBatchNorm(2), 1, "expected at least 2D input (got 1D input)"),
        (nn.InstanceNorm1d(2), 4, "expected 2D or 3D input (got 4D input)"),
        (nn.InstanceNorm2d(2), 2, "expected 3D or 4D input (got 2D input)"),
        (nn.CircularPad1d(1), 4, "expected 2D or 3D input (got 4D input)"),
        (nn.Softmax2d(), 2, "Softmax2d: expected input to be 3D or 4D, got 2D instead"),
    ],
)
def test_refused_numbers_of_dims(layer, dims, message):
    with pytest.raises(ValueError) as error:
        layer(ember.zeros([2] * dims))
    assert str(error.value) == message


def test_instance_norm_checks_channels_where_they_matter():
    with pytest.warns(UserWarning, match="input's size at dim=1 does not match num_features"):
        nn.InstanceNorm1d(3)(ember.ones(2, 2, 2))
    with pytest.raises(ValueError, match=r"match num_features \(3\), but got: 2"):
        nn.InstanceNorm1d(3, affine=True)(ember.ones(2, 2, 2))


def test_batch_norm_keeps_running_values():
    norm = nn.BatchNorm1d(1)
    norm(ember.tensor([[1.0], [3.0]]))
    assert norm.running_mean.tolist() == pytest.approx([0.2])
    assert norm.running_var.tolist() == pytest.approx([1.1])
    assert norm.num_batches_tracked.item() == 1
    norm.eval()(ember.tensor([[9.0], [7.0]]))
    assert norm.num_batches_tracked.item() == 1
    norm.reset_running_stats()
    assert norm.running_mean.item() == 0 and norm.running_var.item() == 1
    average = nn.BatchNorm1d(1, momentum=None)
    average(ember.tensor([[1.0], [3.0]]))
    average(ember.tensor([[5.0], [9.0]]))
    assert average.running_mean.item() == pytest.approx(4.5)
    assert average.running_var.item() == pytest.approx(5.0)


def test_sync_batch_norm_takes_over_what_a_batch_norm_holds():
    norm = nn.BatchNorm1d(2)
    norm.running_mean.fill_(3)
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(norm, nn.ReLU()))
    assert type(net[0]) is nn.SyncBatchNorm and net[0].weight is norm.weight
    assert net[0].running_mean is norm.running_mean and type(net[1]) is nn.ReLU


def test_dropout_scales_what_it_keeps():
    layer = nn.Dropout(0.25)
    out = layer(ember.ones(4000))
    kept = out[out != 0]
    assert kept.tolist() == pytest.approx([4 / 3] * len(kept)) and 2800 < len(kept) < 3200
    channels = nn.Dropout2d(0.5)(ember.ones(1, 50, 3, 3)).reshape(50, 9)
    assert all(len(set(row.tolist())) == 1 for row in channels)


def test_embedding_rows_and_their_gradients():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0.0, 0.0]
    layer(ember.tensor([0, 3, 0])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    table = ember.tensor([[1.0, 2.0], [3.0, 4.0]])
    frozen = nn.Embedding.from_pretrained(table)
    assert frozen(ember.tensor([1])).tolist() == [[3.0, 4.0]] and not frozen.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_embedding_max_norm_rescales_the_rows_it_looks_up():
    layer = nn.Embedding.from_pretrained(ember.tensor([[3.0, 4.0], [30.0, 40.0]]), max_norm=5.0)
    assert layer(ember.tensor([1]))[0].tolist() == pytest.approx([3.0, 4.0], rel=1e-5)
    assert layer.weight[1].tolist() == pytest.approx([3.0, 4.0], rel=1e-5)


def test_deprecated_arguments_warn():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert nn.MSELoss(reduce=False).reduction == "none"
    with pytest.warns(FutureWarning, match="keyword argument `min_value` is deprecated"):
        assert nn.Hardtanh(min_value=-3).min_val == -3
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        nn.NLLLoss2d()


def test_adaptive_softmax_predicts_what_is_most_probable():
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], div_value=2.0)
    x = ember.randn(20, 4)
    log_prob = layer.log_prob(x)
    assert log_prob.shape == (20, 6)
    assert log_prob.exp().sum(1).tolist() == pytest.approx([1.0] * 20, rel=1e-4)
    assert layer.predict(x).tolist() == log_prob.argmax(1).tolist()
    target = ember.tensor([5] * 20)
    assert layer(x, target).output.tolist() == pytest.approx(log_prob[:, 5].tolist(), rel=1e-4)
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 5\]"):
        layer(x, ember.tensor([6] * 20))


def test_linear_cross_entropy_checks_its_choices():
    options = nn.LinearCrossEntropyOptions
    assert options(chunking_method="aspect_ratio:2") == options(chunking_method="aspect_ratio:2")
    assert repr(options(batch_chunk_size=2)) == (
        "LinearCrossEntropyOptions(allow_retain_graph=False, batch_chunk_size=2, "
        "chunking_method='auto', acc_policy='auto', acc_dtype=None)"
    )
    for wrong in (
        {"batch_chunk_size": 0},
        {"chunking_method": "aspect_ratio:0"},
        {"acc_dtype": ember.int32},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            options(**wrong)
    with pytest.raises(RuntimeError, match=r"expected weight shape to be \(2,\), got \(3,\)"):
        nn.LinearCrossEntropyLoss(4, 2, weight=ember.ones(3))
    with pytest.raises(RuntimeError, match=r"label_smoothing to be in range \[0, 1\], got 2.0"):
        nn.LinearCrossEntropyLoss(4, 2, label_smoothing=2.0)
    with pytest.raises(TypeError, match="delta must be a float or int, got: <class 'complex'>"):
        nn.HuberLoss(delta=1j)


def test_repr_of_layers_with_defaults():
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.BatchNorm2d(3)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"


def test_cross_map_lrn_has_the_values_of_pytorch():
    x = (ember.arange(10, dtype=ember.float64) * 1.7 + 0.2).sin().reshape(1, 5, 1, 2)
    layer = nn.CrossMapLRN2d(3, alpha=0.1)
    assert repr(layer) == "CrossMapLRN2d(3, alpha=0.1, beta=0.75, k=1)"
    assert layer(x).flatten().tolist() == pytest.approx(
        [
            0.197509,
            0.910388,
            -0.435283,
            -0.792428,
            0.635618,
            0.628262,
            -0.787844,
            -0.432669,
            0.907297,
            0.200771,
        ],
        abs=1e-6,
    )
    with pytest.raises(ValueError, match="CrossMapLRN2d: Expected input to be 4D, got 2D instead."):
        layer(ember.ones(2, 2))
