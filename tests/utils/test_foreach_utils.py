"""Lists of tensors by device and dtype."""

import pytest

import ember as torch
from ember.utils._foreach_utils import _device_has_foreach_support
from ember.utils._foreach_utils import _group_tensors_by_device_and_dtype as group


def test_groups_keep_what_belongs_together():
    a, b, c = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)
    state = ["x", None, "z"]
    found = group([[a, b, c], state, []], with_indices=True)
    cpu = torch.device("cpu")
    lists, places = found[cpu, torch.float32]
    assert lists[0][0] is a and lists[0][1] is c and lists[1:] == [["x", "z"], []]
    assert places == [0, 2] and found[cpu, torch.float64][1] == [1]
    assert group([[a]])[cpu, torch.float32][1] == []
    assert not _device_has_foreach_support(cpu)
    with pytest.raises(RuntimeError, match="the lists differ"):
        group([[a], [b, c]])
