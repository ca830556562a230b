"""Legacy constructors and what every tensor is asked for; values as PyTorch gives them."""

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
