"""Tensors like another: their keywords, layouts and errors."""

import inspect

import pytest

import ember as torch

FUNCTIONS = {
    "zeros_like": (),
    "ones_like": (),
    "empty_like": (),
    "full_like": (3,),
    "rand_like": (),
    "randn_like": (),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unknown_keyword_is_refused(name):
    with pytest.raises(TypeError, match="foo"):
        getattr(torch, name)(torch.ones(2), *FUNCTIONS[name], foo=1)


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
def test_signature_names_the_keywords(name):
    keywords = {"dtype", "layout", "device", "requires_grad", "pin_memory", "memory_format"}
    parameters = inspect.signature(getattr(torch, name)).parameters
    assert keywords <= parameters.keys()
    assert all(parameters[k].kind is inspect.Parameter.KEYWORD_ONLY for k in keywords)


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
@pytest.mark.parametrize("keyword", ["dtype", "layout", "memory_format"])
def test_keyword_of_another_kind_is_refused(name, keyword):
    with pytest.raises(TypeError, match=f"argument '{keyword}' must be torch.{keyword}, not str"):
        getattr(torch, name)(torch.ones(2), *FUNCTIONS[name], **{keyword: "x"})


def test_values_and_options():
    like = torch.tensor([[1, 2], [3, 4]]).t()
    made = torch.full_like(
        like, 2.5, dtype=torch.float64, layout=torch.strided, device="cpu", requires_grad=True
    )
    assert made.tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert made.dtype is torch.float64 and made.requires_grad and made.stride() == (1, 2)
    rows = torch.ones_like(like, memory_format=torch.contiguous_format)
    assert rows.stride() == (2, 1) and rows.tolist() == [[1, 1], [1, 1]]
    assert torch.zeros_like(like, dtype=None, device=None, memory_format=None).stride() == (1, 2)
    assert torch.full_like(like, torch.tensor(7)).tolist() == [[7, 7], [7, 7]]


def test_sparse_layout_only_of_zeros():
    made = torch.zeros_like(torch.ones(2, 3), layout=torch.sparse_coo)
    assert made.layout is torch.sparse_coo
    assert made.to_dense().tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    for name in ("ones_like", "empty_like", "full_like"):
        with pytest.raises(NotImplementedError, match="layout"):
            getattr(torch, name)(torch.ones(2), *FUNCTIONS[name], layout=torch.sparse_coo)
