"""What a user's slip leads to: PyTorch's exception and its words, or PyTorch's value."""

import numpy as np
import pytest

import ember as torch

REFUSED = [
    (lambda: torch.tensor([torch.ones(2)]), ValueError, "only one element tensors can be conv"),
    (lambda: torch.tensor([torch.ones(2).long()]), TypeError, "only integer tensors of a single"),
    (lambda: torch.tensor(["a", 1]), ValueError, "too many dimensions 'str'"),
    (lambda: torch.tensor([1, "a"]), TypeError, r"new\(\): invalid data type 'str'"),
    (lambda: torch.tensor([1, {}]), RuntimeError, "Could not infer dtype of dict"),
    (lambda: torch.tensor(np.ones(2, ">f4")), ValueError, "byte order different from the native"),
    (lambda: int(torch.ones(2)), ValueError, "only one element tensors can be converted"),
    (lambda: complex(torch.ones(0)), ValueError, "only one element tensors can be converted"),
    (lambda: torch.ones(2)[1.5], IndexError, r"only integers, slices .* \(got float\)"),
    (lambda: torch.ones(2)[{}], IndexError, r"only integers, slices .* \(got dict\)"),
    (lambda: torch.full(2, 1), TypeError, r"full\(\): argument 'size' .* not int"),
    (lambda: torch.full((2,), 1, colour=3), TypeError, "unexpected keyword argument .*colour"),
    (lambda: torch.ones(2, colour=3), TypeError, r"ones\(\) got an unexpected keyword .*colour"),
    (lambda: torch.ones(), TypeError, r'ones\(\) missing 1 required positional arguments: "size"'),
    (lambda: torch.ones(size=3), TypeError, r"ones\(\): argument 'size' must be tuple of ints"),
    (lambda: torch.zeros(torch.tensor([2, 3])), TypeError, "must be tuple of ints, not Tensor"),
    (lambda: +torch.tensor([True]), RuntimeError, r"The `\+` operator, on a bool tensor"),
    (lambda: torch.ones(2).__delitem__(0), TypeError, "Tensor does not support deleting items"),
    (lambda: torch.arange(3, dtype=torch.bool), NotImplementedError, "implemented for 'Bool'"),
    (
        lambda: torch.logaddexp(torch.tensor([1]), torch.tensor([1])),
        NotImplementedError,
        "not implemented for 'Long'",
    ),
    (lambda: torch.fft.fft(torch.ones(3), n=-1), RuntimeError, r"Invalid number of data points"),
    (lambda: torch.set_grad_enabled("no"), TypeError, "must be bool, not str"),
]


@pytest.mark.parametrize(("program", "error", "words"), REFUSED)
def test_refused_with_pytorchs_words(program, error, words):
    with pytest.raises(error, match=words):
        program()
    assert torch.is_grad_enabled()


def test_tensors_of_one_element_are_numbers_in_a_list():
    made = torch.tensor([torch.tensor([1.5]), torch.tensor(2), torch.tensor([[3]])])
    assert made.tolist() == [1.5, 2.0, 3.0]
    assert torch.tensor([[torch.tensor([1])], [2]]).shape == (2, 1)


def test_too_few_elements_for_a_variance_are_warned_of():
    for name in ("var", "std", "var_mean", "std_mean"):
        with pytest.warns(UserWarning, match=rf"^{name}\(\): degrees of freedom is <= 0"):
            getattr(torch, name)(torch.ones(2, 1), 1)
    with pytest.warns(UserWarning, match=r"^cov\(\): degrees of freedom is <= 0"):
        torch.cov(torch.ones(2, 1))


def test_reversed_flips_every_dim():
    assert reversed(torch.arange(4).view(2, 2)).tolist() == [[3, 2], [1, 0]]
    assert reversed(torch.tensor(3)).item() == 3


def test_a_hook_may_not_change_the_shape():
    a = torch.ones(3, requires_grad=True)
    a.register_hook(lambda grad: torch.ones(2))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        a.sum().backward()
    assert a.grad is None


def test_a_module_hook_returns_tensors():
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: 3)
    with pytest.raises(TypeError, match="no tensor"):
        layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


def test_expanded_memory_is_printed_without_being_laid_out():
    assert repr(torch.ones(1).expand(10**13)) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"
    assert repr(torch.ones(1, 1).expand(10**6, 10**6)).count("1.") == 36
