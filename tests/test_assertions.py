"""torch._check and its kin, and functions of numbers that may be symbols."""

import pytest

import ember as torch

T = torch.tensor


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: torch._check(False), RuntimeError, "Expected cond to be True, but got False"),
        (lambda: torch._check(False, lambda: "mine"), RuntimeError, "^mine$"),
        (lambda: torch._check(False, "text"), TypeError, "message must be a callable"),
        (lambda: torch._check(3), TypeError, "cond must be a bool, but got <class 'int'>"),
        (lambda: torch._check(T(True)), TypeError, "use torch._check_tensor_all"),
        (lambda: torch._check_index(False, lambda: "m"), IndexError, "m"),
        (lambda: torch._check_value(False, lambda: "m"), ValueError, "m"),
        (lambda: torch._check_type(False, lambda: "m"), TypeError, "m"),
        (lambda: torch._check_not_implemented(False), NotImplementedError, "Expected cond"),
        (lambda: torch._check_with(KeyError, False, lambda: "k"), KeyError, "k"),
        (lambda: torch._check_tensor_all(T([True, False])), RuntimeError, "Expected cond"),
        (lambda: torch._check_tensor_all(T([1])), TypeError, "must have dtype torch.bool"),
        (lambda: torch._check_tensor_all([1]), TypeError, "cond must be a tensor"),
        (lambda: torch._assert(False, "m"), AssertionError, "m"),
        (lambda: torch._assert_async(T(0)), RuntimeError, "single nonzero value, but got zero"),
        (lambda: torch._assert_async(T(0), "m"), RuntimeError, "^m$"),
        (lambda: torch._assert_scalar(0, "m"), RuntimeError, "m"),
        (
            lambda: torch._assert_tensor_metadata(torch.ones(2), (3,)),
            RuntimeError,
            r"Tensor sizes mismatch! Expected: \[3\], Got: \[2\]",
        ),
        (
            lambda: torch._assert_tensor_metadata(torch.ones(2), dtype=torch.int32),
            RuntimeError,
            "Tensor dtype mismatch! Expected: Int, Got: Float",
        ),
        (lambda: torch.sym_constrain_range(3, min=1, max=2), RuntimeError, "Invalid value range"),
        (lambda: torch.sym_ite(3, 1, 2), AssertionError, "expected SymBool or bool"),
    ],
)
def test_failures(run, error, message):
    with pytest.raises(error, match=message):
        run()


def test_what_holds():
    torch._check(True, lambda: 1 / 0)
    torch._check_tensor_all(T([True, True]))
    torch._assert(T(True), "m")
    torch._assert_async(T(1))
    torch._assert_tensor_metadata(torch.ones(2), (2,), (1,), torch.float32)
    torch.sym_constrain_range(3, min=1, max=4)
    with pytest.warns(FutureWarning, match="_check_is_size"):
        torch._check_is_size(3)


def test_numbers():
    assert torch.sym_max(3, 2.0) == 3.0 and type(torch.sym_max(3, 2.0)) is float
    assert torch.sym_min(3, 2) == 2 and torch.sym_float(3) == 3.0
    assert torch.sym_int(3.7) == 3 and torch.sym_int(-3.7) == -3
    assert torch.sym_not(True) is False and torch.sym_ite(True, 1, 2) == 1
    assert torch.sym_sum([1, 2, 3]) == 6 and torch.sym_sqrt(4) == 2.0
    assert not isinstance(torch.ones(2).shape[0], torch.SymInt)
