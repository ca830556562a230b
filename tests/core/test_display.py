"""What only whole tensors show: their class, and no device where it goes without saying."""

import pytest

import ember as torch


class Named(torch.Tensor):
    pass


def test_subclasses_show_their_name():
    assert repr(Named([1.0, 2.0])) == "Named([1., 2.])"
    assert repr(torch.ones(2, 2).as_subclass(Named)) == "Named([[1., 1.],\n       [1., 1.]])"
    shown = repr(torch.nn.Parameter(torch.ones(1)))
    assert shown == "Parameter containing:\ntensor([1.], requires_grad=True)"


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_a_device_is_named_unless_it_is_that_of_the_default_tensor_type(gpus):
    first, second = torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1")
    assert repr(first) == "tensor([1.], device='cuda:0')"
    with torch.device("cuda:0"):
        assert repr(torch.ones(1)) == "tensor([1.], device='cuda:0')"
    with torch.device("meta"):
        assert repr(torch.ones(1)) == "tensor(..., device='meta', size=(1,))"
    try:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert repr(first) == repr(torch.ones(1)) == "tensor([1.])"
        assert repr(second) == "tensor([1.], device='cuda:1')"
        assert repr(torch.ones(1, device="cpu")) == "tensor([1.], device='cpu')"
        with torch.cuda.device(1):
            assert repr(second) == "tensor([1.])"
            assert repr(first) == "tensor([1.], device='cuda:0')"
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert repr(torch.ones(1)) == "tensor([1.])"
