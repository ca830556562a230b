"""Dicts that do not keep their keys."""

import copy
import gc

import ember as torch
from ember.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_told_apart_by_identity_and_leave():
    a, b = torch.ones(2), torch.ones(2)
    found = WeakIdKeyDictionary({a: 1})
    found[b] = 2
    assert found[a] == 1 and found[b] == 2 and len(found) == 2
    assert torch.ones(2) not in found and 3 not in found
    assert [k is w for k, w in zip(found, (a, b), strict=True)] == [True, True]
    again = copy.copy(found)
    assert again == found and again.pop(a) == 1 and again != found
    del b
    gc.collect()
    assert len(found) == 1 and list(found.values()) == [1] and len(found.keyrefs()) == 1


def test_references():
    a, b = torch.ones(1), torch.ones(1)
    assert WeakIdRef(a) == WeakIdRef(a) and WeakIdRef(a) != WeakIdRef(b)
    assert WeakTensorKeyDictionary({a: 3})[a] == 3
    reference = TensorWeakRef(a)
    assert reference() is a
    del a
    gc.collect()
    assert reference() is None
