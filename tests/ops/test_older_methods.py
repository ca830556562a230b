"""How tensors lie in memory, functions that are gone, and settings of warnings."""

import warnings

import pytest

import ember as torch
from ember import source_lines


@pytest.mark.parametrize("name", ["eig", "lstsq", "solve", "symeig", "matrix_rank"])
def test_removed_functions_say_what_to_call(name):
    with pytest.raises(RuntimeError, match=r"is now removed\. [^\n]*linalg"):
        getattr(torch, name)(torch.eye(2))
    if name != "matrix_rank":
        with pytest.raises(RuntimeError, match="is now removed"):
            getattr(torch.eye(2), name)()


def test_orders_of_dims():
    x = torch.ones(2, 3, 4).permute(2, 0, 1)
    assert x.dim_order() == x.dim_order(ambiguity_check=True) == (1, 2, 0)
    last = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert last.dim_order() == (0, 2, 3, 1)
    formats = [torch.contiguous_format, torch.channels_last]
    assert last.dim_order(ambiguity_check=formats) == (0, 2, 3, 1)
    for made, given in ((torch.ones(1, 1, 3), True), (torch.ones(1, 1, 1, 1), formats)):
        with pytest.raises(RuntimeError, match="does not have unique dim order"):
            made.dim_order(ambiguity_check=given)


def test_addresses_and_streams():
    x = torch.ones(3)[1:]
    assert x.const_data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="no streams"):
        x.record_stream(None)
    with pytest.raises(RuntimeError, match="torch.distributions"):
        x.reinforce(1)


def test_what_modules_load():
    x, other = torch.zeros(2), torch.ones(2)
    assert x.module_load(other).data_ptr() == x.data_ptr() and x.tolist() == [1.0, 1.0]
    assert x.module_load(other, assign=True).data_ptr() == other.data_ptr()


def test_functions_of_methods():
    y = torch.ones(2, requires_grad=True) * 2
    assert torch.detach_(y) is y and not y.requires_grad
    s = torch.eye(2).to_sparse()
    assert torch.indices_copy(s).tolist() == [[0, 1], [0, 1]]
    assert torch.values_copy(s).tolist() == [1.0, 1.0]
    assert torch.crow_indices_copy(s.to_sparse_csr()).tolist() == [0, 1, 2]


def test_warnings_each_time():
    assert torch.is_warn_always_enabled() is False and torch.compiled_with_cxx11_abi()

    def count():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for _ in range(3):
                source_lines.warn("again")
        return len(seen)

    assert count() == 1
    torch.set_warn_always(True)
    assert count() == 3 and torch.is_warn_always_enabled()
    torch.set_warn_always(False)


def test_kinds_of_tensors_that_are_left_out():
    x = torch.ones(2)
    for name in ("to_mkldnn", "to_padded_tensor", "rename", "refine_names", "align_to"):
        with pytest.raises(NotImplementedError, match=f"Tensor.{name}: "):
            getattr(x, name)()
    with pytest.raises(NotImplementedError, match="names of dims are left out"):
        torch.zeros(2, names=("N",))
    with pytest.raises(AttributeError, match="no nested tensors"):
        torch.nested
    assert x.names == (None,) and not x.is_nested
