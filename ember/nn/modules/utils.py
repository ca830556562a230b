"""Sizes as tuples, and state-dict keys without a wrapper's prefix."""

from collections.abc import Iterable
from itertools import repeat

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(count, name="parse"):
    def parse(size):
        if isinstance(size, Iterable):
            return tuple(size)
        return tuple(repeat(size, count))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values, count):
    """The values last to first, each `count` times: the order in which `F.pad` wants them."""
    return tuple(value for value in reversed(values) for _ in range(count))


def _list_with_default(out_size, defaults):
    """`out_size` with each None replaced by the default at its place, counted from the end."""
    if isinstance(out_size, (int,)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"Input dimension should be at least {len(out_size) + 1}, got {len(defaults)}"
        )
    known = defaults[-len(out_size) :]
    return [d if size is None else size for size, d in zip(out_size, known, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Take `prefix` off the keys of a state dict, in place.

    >>> state = {"module.weight": 1}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        # the wrapper's own entry, '', stays; 'module' becomes '', 'module.x' becomes 'x'
        if len(key) == 0:
            continue
        if key.startswith(prefix) or key == prefix.removesuffix("."):
            metadata[key[len(prefix) :]] = metadata.pop(key)
