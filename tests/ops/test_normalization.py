"""Normalizations: running statistics, dtypes, errors."""

import math

import pytest

import ember as torch
import ember.nn.functional as F


def test_batch_norm_moves_running_statistics():
    mean, var = torch.zeros(2), torch.ones(2)
    x = torch.tensor([[1.0, 2.0], [3.0, 2.0], [5.0, 8.0]])
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == pytest.approx([1.5, 2.0])
    assert var.tolist() == pytest.approx([0.5 + 4 / 2, 0.5 + 12 / 2])  # the unbiased variance
    F.batch_norm(x, mean, var)
    assert mean.tolist() == pytest.approx([1.5, 2.0])


def test_instance_norm_moves_running_statistics_by_their_mean_over_the_batch():
    mean, var = torch.zeros(1), torch.ones(1)
    F.instance_norm(torch.tensor([[[1.0, 3.0]], [[5.0, 5.0]]]), mean, var, momentum=0.5)
    assert mean.tolist() == pytest.approx([0.5 * (2 + 5) / 2])
    assert var.tolist() == pytest.approx([0.5 + 0.5 * (2 + 0) / 2])


def test_half_inputs_go_with_float32_parameters():
    x = torch.tensor([[1.0, 2.0, 6.0]], dtype=torch.bfloat16)
    weight, bias = torch.ones(3), torch.zeros(3)
    for result in (
        F.layer_norm(x, (3,), weight, bias),
        F.batch_norm(x, bias, weight, weight, bias),
        F.group_norm(x, 1, weight, bias),
        F.rms_norm(x, (3,), weight),
    ):
        assert result.dtype == torch.bfloat16
    wide = F.layer_norm(x.float(), (3,))
    assert F.layer_norm(x, (3,)).tolist() == wide.bfloat16().tolist()


def test_the_default_eps_of_rms_norm_is_the_dtype_s():
    tiny = torch.tensor([1e-5, 0.0])
    expected = 1e-5 / math.sqrt(0.5e-10 + 2**-23)
    assert F.rms_norm(tiny, (2,))[0].item() == pytest.approx(expected, rel=1e-5)
    assert F.rms_norm(tiny.double(), (2,))[0].item() == pytest.approx(2**0.5, rel=1e-4)


def test_empty_batches():
    assert F.batch_norm(torch.zeros(0, 3), None, None, training=True).shape == (0, 3)
    assert F.layer_norm(torch.zeros(0, 4), (4,)).shape == (0, 4)
    assert F.group_norm(torch.zeros(0, 4), 2).shape == (0, 4)


X = torch.ones(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.batch_norm(torch.ones(1, 3), None, None, training=True),
            ValueError,
            r"Expected more than 1 value per channel when training, got input size torch.Size",
        ),
        (lambda: F.batch_norm(X, None, None), RuntimeError, "running_mean must be defined in eval"),
        (
            lambda: F.batch_norm(X, torch.ones(2), torch.ones(2)),
            RuntimeError,
            "running_mean should contain 3 elements not 2",
        ),
        (
            lambda: F.batch_norm(X, None, None, torch.ones(2), training=True),
            RuntimeError,
            "weight should contain 3 elements not 2",
        ),
        (
            lambda: F.batch_norm(X, torch.ones(3), None, training=True),
            ValueError,
            "must either both be None or neither be None",
        ),
        (lambda: F.batch_norm(X, None, None, training=True, eps=0), ValueError, "must be positive"),
        (
            lambda: F.batch_norm(X, torch.ones(3).double(), torch.ones(3).double()),
            RuntimeError,
            "mixed dtype",
        ),
        (
            lambda: F.instance_norm(torch.ones(2, 3, 1)),
            ValueError,
            "Expected more than 1 spatial element when training",
        ),
        (
            lambda: F.instance_norm(X, use_input_stats=False),
            RuntimeError,
            "Expected running_mean and running_var to be defined",
        ),
        (lambda: F.layer_norm(X, 4), TypeError, "must be tuple of ints, not int"),
        (lambda: F.layer_norm(X, []), RuntimeError, "at least 1-dimensional"),
        (
            lambda: F.layer_norm(X, (3,)),
            RuntimeError,
            r"Given normalized_shape=\[3\], expected input with shape \[\*, 3\], but got input",
        ),
        (
            lambda: F.layer_norm(X, (3, 4), torch.ones(4)),
            RuntimeError,
            r"Expected weight to be of same shape as normalized_shape",
        ),
        (lambda: F.layer_norm(X.long(), (4,)), NotImplementedError, "'Long'"),
        (lambda: F.group_norm(X, 2), RuntimeError, "to be divisible by num_groups"),
        (
            lambda: F.group_norm(torch.ones(1, 4), 4),
            ValueError,
            r"Expected more than 1 value per channel when training, got input size \[1, 4\]",
        ),
        (lambda: F.local_response_norm(torch.ones(2, 3), 2), ValueError, "3D or higher"),
    ],
)
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_refused_batch_leaves_the_running_statistics():
    mean, var = torch.zeros(3), torch.ones(3)
    with pytest.raises(RuntimeError):
        F.batch_norm(X, mean, var, torch.ones(2), training=True)
    assert mean.tolist() == [0, 0, 0] and var.tolist() == [1, 1, 1]


def test_normalize_into_a_tensor():
    out = torch.empty(1, 2)
    assert F.normalize(torch.tensor([[3.0, 4.0]]), out=out) is out
    assert out.flatten().tolist() == pytest.approx([0.6, 0.8])
