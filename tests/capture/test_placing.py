"""Copies and fills that programs do without, because results are made where they are wanted."""

import pytest

import ember as torch
from ember.capture.compiled import Captured
from ember.capture.placing import _are_apart, _Moves, placed
from ember.capture.recorder import Instruction, Place
from ember.device import CPU
from ember.dtypes import float32
from ember.kernel.array import contiguous_spec, spec_of
from ember.nn import functional as F


def kinds(function, *arguments):
    """The names of a recording's steps; results are compared with the function's."""
    run = Captured(function)
    for _ in range(3):
        found, exact = run(*arguments), function(*arguments)
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    program = run.recordings[0].program
    assert program is not None, run.report()
    return [name.strip() for name in program.names]


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def place(shape, strides=None, storage=0, offset=0):
    spec = contiguous_spec(shape, float32, CPU)
    return Place(
        storage, spec if strides is None else spec_of(shape, strides, float32, CPU), offset
    )


def test_gradients_of_joint_heads_are_written_into_the_joint_gradient():
    def step(joint, slope):
        leaf = joint.clone().requires_grad_()
        q, k, v = (p.view(2, 70, 4, 16).transpose(1, 2) for p in leaf.split(64, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        made = mixed.transpose(1, 2).reshape(2, 70, 64)
        (grad,) = torch.autograd.grad(made, leaf, slope)
        return made, grad * 2

    found = kinds(step, values(2, 70, 192), values(2, 70, 64, seed=1))
    assert not any(name.startswith("fill") for name in found)
    assert found.count("copy") <= 1  # of the leaf


def test_sums_and_formulas_are_made_in_the_layout_that_is_wanted():
    def function(x):
        wide = torch.zeros(6, 40)
        wide[:, :20] = (x * 2 + 1).exp()
        wide[:, 20:] = x.tanh() * x
        return wide.sum(1), wide.clone(), x.sum(0, keepdim=True).reshape(20).clone()

    found = kinds(function, values(6, 20))
    assert not any(name.startswith("fill") for name in found)
    assert found.count("copy") == 1  # of the clone of what is summed too


def test_what_is_read_before_it_is_covered_is_filled():
    def function(x):
        wide = torch.ones(4, 8)
        seen = wide * 3
        wide[:, :4] = x * 2
        half = wide.clone()
        wide[:, 4:] = x * 5
        return seen, half, wide * 1

    kinds(function, values(4, 4))


def test_what_is_written_again_while_it_is_read_is_copied():
    def function(x):
        made = (x * 2).t()
        kept = torch.empty(5, 3)
        kept.copy_(made)
        kept.mul_(10)
        return made * 1, kept * 1, (made + 1).contiguous()

    kinds(function, values(3, 5))


@pytest.mark.parametrize("part", [slice(0, 3), slice(2, 5)])
def test_overlapping_parts_are_written_in_order(part):
    def function(x):
        wide = torch.zeros(5, 4)
        wide[1:4] = x * 2
        wide[part] = x.exp()
        return (wide * 1,)

    kinds(function, values(3, 4))


def test_places_follow_a_dense_source_into_a_strided_target():
    moves = _Moves(place((2, 3, 4), (12, 1, 3)), place((2, 3, 4), (100, 8, 2), 1, 7))
    assert moves.place(place((2, 12), (12, 1))) is None  # no one stride along the second dim
    assert moves.place(place((2, 3, 4), (12, 1, 3))) == place((2, 3, 4), (100, 8, 2), 1, 7)
    assert moves.place(place((4,), (3,), 0, 13)) == place((4,), (2,), 1, 115)
    assert moves.place(place((2, 2), (12, 2), 0, 0)) == place((2, 2), (100, 16), 1, 7)
    assert moves.place(place((2,), (2,), 0, 2)) is None  # beyond the dim
    merged = _Moves(place((2, 6), (6, 1)), place((2, 6), (12, 2), 1))
    assert merged.place(place((12,))) == place((12,), (2,), 1)
    assert not _Moves(place((2, 3), (4, 1)), place((2, 3), None, 1)).dims  # gaps
    assert not _Moves(place((2, 3), (0, 1)), place((2, 3), None, 1)).dims


def test_arrays_apart():
    columns = place((4, 3), (8, 1))
    assert _are_apart(columns, place((4, 3), (8, 1), 0, 3))
    assert not _are_apart(columns, place((4, 3), (8, 1), 0, 2))
    assert _are_apart(place((4,)), place((4,), None, 0, 4))


def test_memory_that_hosts_see_is_left_alone():
    copy = Instruction("copy", None, (place((4,), None, 1),), (place((4,), None, 2),))
    made = Instruction("copy", None, (place((4,), None, 0),), (place((4,), None, 1),))
    host = Instruction("host", lambda: None, (None,), ())
    assert len(placed([made, copy], {0, 2})) == 1
    assert len(placed([made, host, copy], {0, 2})) == 3
    assert len(placed([made, host, copy], {0})) == 2
    assert len(placed([made, copy], {0, 1, 2})) == 2
