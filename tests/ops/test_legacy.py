"""Legacy constructors and what every tensor is asked for; values as PyTorch gives them."""

import numpy as np
import pytest

import ember as torch


def test_new_takes_sizes_or_data():
    a = torch.ones(2, dtype=torch.float64)
    assert a.new(2, 3).shape == (2, 3) and a.new(2, 3).dtype is torch.float64
    assert a.new().shape == (0,) and a.new(size=(4,)).shape == (4,)
    assert a.new(torch.Size([2, 1])).shape == (2, 1)
    assert a.new([[1, 2]]).tolist() == [[1.0, 2.0]]
    assert a.long().new([1.5]).tolist() == [1]


def test_new_refuses_other_devices_dtypes_and_plain_numbers():
    a = torch.ones(2)
    with pytest.raises(RuntimeError, match="expects device type: cpu but device type: meta"):
        a.new([1], device="meta")
    with pytest.raises(TypeError, match="got one of torch.int64"):
        a.new(a.long())
    with pytest.raises(TypeError, match="data must be a sequence .got float"):
        a.new(1.5)


@pytest.mark.parametrize(
    "data",
    [2.5, True, None, 1j, np.float32(2), {1: 2}, {1}, object(), iter([1])],
    ids=lambda data: type(data).__name__,
)
def test_a_legacy_constructor_wants_sizes_or_a_sequence(data):
    kind = type(data).__name__
    for make in (torch.Tensor, torch.FloatTensor, torch.ones(1).new):
        with pytest.raises(TypeError, match=rf"new\(\): data must be a sequence \(got {kind}\)"):
            make(data)


def test_a_legacy_constructor_takes_integers_of_numpy_as_sizes_and_names():
    assert torch.Tensor(np.int64(2)).shape == torch.Tensor(np.array(2)).shape == (2,)
    assert torch.Tensor(np.array(2.5)).tolist() == 2.5 and torch.Tensor(range(2)).tolist() == [0, 1]
    assert torch.Tensor(size=(2, 3)).shape == (2, 3) and torch.Tensor(data=[2.5]).tolist() == [2.5]
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.Tensor(shape=(2,))


def test_a_tensor_of_a_tensor_is_another_view_of_any_dtype():
    w = torch.ones(2, requires_grad=True)
    assert torch.Tensor(w).grad_fn is not None and torch.Tensor(w)._base is w
    assert torch.Tensor(torch.tensor([3])).dtype is torch.int64
    with pytest.raises(TypeError, match="expected a tensor of torch.float32"):
        torch.FloatTensor(torch.tensor([3]))


def test_no_tensor_is_of_a_kind_that_ember_lacks():
    a = torch.ones(2)
    kinds = "sparse sparse_csr quantized mkldnn nested mps xpu xla".split()
    assert not any(getattr(a, f"is_{kind}") for kind in kinds)
    assert a.layout is torch.strided


def test_legacy_constructors_share_the_memory_of_a_tensor():
    a = torch.ones(2)
    a.new(a)[0] = 5
    torch.Tensor(a)[1] = 7
    assert a.tolist() == [5.0, 7.0]
