"""assert_close: what passes, and the messages of what does not (recorded from PyTorch)."""

import numpy as np
import pytest

import ember as torch
from ember.testing import assert_allclose, assert_close

T = torch.tensor
NAN, INF = float("nan"), float("inf")


def tensor_text(
    wrong, total, percent, absolute, relative, kind="close", allowed=("1e-05", "1.3e-06")
):
    tails = ["", ""] if kind == "equal" else [f" (up to {a} allowed)" for a in allowed]
    return (
        f"Tensor-likes are not {kind}!\n\nMismatched elements: {wrong} / {total} ({percent})\n"
        f"Greatest absolute difference: {absolute}{tails[0]}\n"
        f"Greatest relative difference: {relative}{tails[1]}"
    )


def scalar_text(expected, actual, absolute, relative, allowed=("1e-05", "1.3e-06")):
    tails = [f" (up to {a} allowed)" for a in allowed] if allowed else ["", ""]
    return (
        f"Scalars are not {'close' if allowed else 'equal'}!\n\nExpected {expected} but got "
        f"{actual}.\nAbsolute difference: {absolute}{tails[0]}\n"
        f"Relative difference: {relative}{tails[1]}"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (T([1.0, 2.0]), T([1.0, 2.0]), {}),
        (T([1, 2]), T([1.0, 2]), {"check_dtype": False}),
        (None, None, {}),
        ([1], (1,), {}),
        (np.float64(1.0), 1.0, {}),
        (np.ones(2), np.ones(2), {}),
        (T(NAN), T(NAN), {"equal_nan": True}),
        (torch.nn.Parameter(T([1.0])), T([1.0]), {}),
        (T([1, 2, 3]), T([1, 2, 4]), {"rtol": 0.5, "atol": 0}),
        (torch.ones(3, device="meta"), torch.ones(3, device="meta"), {}),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16) * 1.01, {}),
        ({"a": [T([1.0]), 2]}, {"a": [T([1.0]), 2]}, {}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "message"),
    [
        (
            T([1.0, 2.0]),
            T([1.0, 2.1]),
            {},
            tensor_text(
                1,
                2,
                "50.0%",
                "0.09999990463256836 at index (1,)",
                "0.04761900380253792 at index (1,)",
            ),
        ),
        (
            T([1.0, 2.0, 3.0]),
            T([1.0, 2.1, 4]),
            {},
            tensor_text(2, 3, "66.7%", "1.0 at index (2,)", "0.25 at index (2,)"),
        ),
        (
            T([[1.0, 2], [3, 4]]),
            T([[1.0, 2], [3, 7]]),
            {},
            tensor_text(1, 4, "25.0%", "3.0 at index (1, 1)", "0.4285714328289032 at index (1, 1)"),
        ),
        (
            T([1, 2]),
            T([1, 3]),
            {},
            tensor_text(
                1, 2, "50.0%", "1 at index (1,)", "0.3333333432674408 at index (1,)", "equal"
            ),
        ),
        (
            T([True, False]),
            T([True, True]),
            {},
            tensor_text(1, 2, "50.0%", "1 at index (1,)", "1.0 at index (1,)", "equal"),
        ),
        (
            T([255], dtype=torch.uint8),
            T([1], dtype=torch.uint8),
            {},
            tensor_text(1, 1, "100.0%", "254 at index (0,)", "254.0 at index (0,)", "equal"),
        ),
        (
            T([1.0], dtype=torch.float16),
            T([1.002], dtype=torch.float16),
            {},
            tensor_text(
                1,
                1,
                "100.0%",
                "0.001953125 at index (0,)",
                "0.001949310302734375 at index (0,)",
                allowed=("1e-05", "0.001"),
            ),
        ),
        (
            T([INF]),
            T([1.0]),
            {},
            tensor_text(1, 1, "100.0%", "inf at index (0,)", "inf at index (0,)"),
        ),
        (
            T([1 + 1j]),
            T([1 + 2j]),
            {},
            tensor_text(1, 1, "100.0%", "1.0 at index (0,)", "0.4472135901451111 at index (0,)"),
        ),
        (
            T([1.0]),
            T([2.0]),
            {"rtol": 0, "atol": 0.5},
            tensor_text(
                1, 1, "100.0%", "1.0 at index (0,)", "0.5 at index (0,)", allowed=("0.5", "0")
            ),
        ),
        (T(1.0), T(2.0), {}, scalar_text(2.0, 1.0, 1.0, 0.5)),
        (T(3), T(5), {}, scalar_text(5, 3, 2, 0.4, None)),
        (1.0, 2.0, {}, scalar_text(2.0, 1.0, 1.0, 0.5, ("1e-07", "1e-07"))),
        (T(NAN), T(NAN), {}, scalar_text("nan", "nan", "nan", "nan")),
        (1, 1.0, {}, "The (d)types do not match: <class 'int'> != <class 'float'>."),
        (True, False, {}, "Booleans mismatch: True is not False"),
        (None, T(1.0), {}, "None mismatch: None is not 1.0"),
        (
            T([1, 2]),
            T([1.0, 2]),
            {},
            "The values for attribute 'dtype' do not match: torch.int64 != torch.float32.",
        ),
        (
            T([1.0, 2]),
            T([[1.0, 2]]),
            {},
            "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([1, 2]).",
        ),
        (
            T([1.0]),
            torch.ones(1, device="meta"),
            {},
            "The values for attribute 'device' do not match: cpu != meta.",
        ),
        (
            torch.ones(2, 2).t(),
            torch.ones(2, 2),
            {"check_stride": True},
            "The values for attribute 'stride()' do not match: (1, 2) != (2, 1).",
        ),
        ([T(1.0)], [], {}, "The length of the sequences mismatch: 1 != 0"),
        (
            {"a": T(1.0)},
            {"b": T(1.0)},
            {},
            (
                "The keys of the mappings do not match:\n"
                "Missing keys in the actual mapping: ['b']\n"
                "Additional keys in the actual mapping: ['a']"
            ),
        ),
        (
            {"a": [T(1.0), T(2.0)]},
            {"a": [T(1.0), T(3.0)]},
            {},
            scalar_text(3.0, 2.0, 1.0, 0.3333333333333333)
            + "\n\nThe failure occurred for item ['a'][1]",
        ),
        (T([1.0]), T([2.0]), {"msg": "mine"}, "mine"),
        (1, 2, {"msg": lambda text: "P " + text}, "P " + scalar_text(2, 1, 1, 0.5, None)),
    ],
)
def test_not_close(actual, expected, options, message):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(T([1.0]), [1.0]), ("a", "a"), (object(), object()), (T(3), 5), (np.ones(1), torch.ones(1))],
)
def test_what_cannot_be_compared(actual, expected):
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(actual, expected)


def test_subclasses_may_be_refused_and_tolerances_come_in_pairs():
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(torch.nn.Parameter(T([1.0])), T([1.0]), allow_subclasses=False)
    with pytest.raises(ValueError, match="must be either specified or omitted, but got no atol"):
        assert_close(1.0, 1.0, rtol=1)


def test_the_older_form():
    with pytest.warns(FutureWarning, match="assert_allclose"):
        assert_allclose(T([1.0]), [1.0])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        assert_allclose(T([1.0]), np.array([2.0]))
