"""torch.device: its grammar, equality, and its use as a default."""

import copy
import pickle

import pytest

import ember


def test_spellings(torch):
    device = torch.device
    assert device("cuda:1") == device("cuda", 1) == device(type="cuda", index=1)
    assert device("cpu").index is None and device("cuda").index is None
    assert (device("cuda:0").type, device("cuda:0").index) == ("cuda", 0)
    assert device("cuda") != device("cuda:0") and device(device("meta")) == device("meta")
    assert str(device("cuda:1")) == "cuda:1" and repr(device("cpu")) == "device(type='cpu')"
    assert repr(device("cuda:1")) == "device(type='cuda', index=1)"
    assert {device("cuda:1"): 5}[device("cuda", 1)] == 5
    assert pickle.loads(pickle.dumps(device("cuda:1"))) == device("cuda:1")
    assert copy.deepcopy(device("cuda:1")) == device("cuda:1")


@pytest.mark.parametrize(
    "text",
    ["", "gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:1.0", "cuda:a", "cuda: 1", "CUDA", "cuda:1:2"],
)
def test_names_that_are_none(torch, text):
    with pytest.raises(RuntimeError):
        torch.device(text)


def test_arguments_that_are_none(torch):
    with pytest.raises(TypeError):
        torch.device(1.5)
    with pytest.raises(RuntimeError, match="must not include an index because index was passed"):
        torch.device("cuda:0", 1)
    with pytest.raises(AttributeError, match="not writable"):
        torch.device("cpu").index = 1


def test_a_decorator_makes_things_on_its_device():
    torch = ember

    @torch.device("meta")
    def build(n):
        return torch.ones(n)

    assert build(3).is_meta and torch.ones(1).is_cpu
