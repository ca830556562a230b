"""NumPy's numbers and arrays as operands beside tensors."""

import numpy as np
import pytest

import ember as torch

OPERATORS = {
    "add": (lambda a, b: a + b, [3.0, 4.0]),
    "sub": (lambda a, b: a - b, [1.0, 0.0]),
    "mul": (lambda a, b: a * b, [2.0, 4.0]),
    "truediv": (lambda a, b: a / b, [2.0, 1.0]),
    "floordiv": (lambda a, b: a // b, [2.0, 1.0]),
    "mod": (lambda a, b: a % b, [0.0, 0.0]),
    "pow": (lambda a, b: a**b, [2.0, 4.0]),
    "lt": (lambda a, b: a < b, [False, False]),
    "eq": (lambda a, b: a == b, [False, True]),
}


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_number_on_the_left_leaves_the_result_to_the_tensor(name, kind):
    function, wanted = OPERATORS[name]
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    result = function(kind(2), x)
    assert isinstance(result, torch.Tensor) and result.tolist() == wanted
    assert result.dtype in (torch.float32, torch.bool)


def test_gradients_pass_numbers_of_numpy():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (np.float64(3.0) * x - np.log(2.0) * x).sum().backward()
    assert x.grad.tolist() == pytest.approx([3 - np.log(2)] * 2)
    x = torch.ones(2)
    x += np.float32(2)
    assert x.tolist() == [3.0, 3.0]
    assert (np.int64(3) & torch.tensor([1])).tolist() == [1]


def test_arrays_on_the_right_give_tensors():
    x = torch.ones(2)
    for result in (x + np.ones(2), x - np.array(-1.0), x / np.array([0.5])):
        assert isinstance(result, torch.Tensor) and result.dtype is torch.float64
        assert result.tolist() == [2.0, 2.0]
    assert (x == np.array([1.0, 2.0])).tolist() == [True, False]
    assert (x != np.array([1.0, 2.0])).tolist() == [False, True]


def test_arrays_on_the_left_are_refused():
    for operation in (lambda a, b: a * b, lambda a, b: a - b, lambda a, b: a @ b):
        with pytest.raises(TypeError, match="unsupported operand"):
            operation(np.ones(2), torch.ones(2))


def test_functions_of_numpy_give_tensors():
    root = np.sqrt(torch.tensor([4.0, 9.0]))
    assert isinstance(root, torch.Tensor) and root.tolist() == [2.0, 3.0]
    assert np.isnan(torch.tensor([1.0, float("nan")])).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.sqrt(torch.ones(2, requires_grad=True))
