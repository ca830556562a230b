"""Containers of parameters: in a list, by name."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.module import Module
from ember.nn.modules.module_registration import type_name
from ember.nn.parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def pairs_of(given, owner, word):
    """The (key, value) pairs of an iterable of them; TypeError or ValueError for anything else."""
    check(
        isinstance(given, Iterable),
        TypeError,
        f"{word}.update should be called with an iterable of key/value pairs, but got "
        f"{type(given).__name__}",
    )
    pairs = []
    for place, pair in enumerate(given):
        where = f"{owner} update sequence element #{place}"
        check(
            isinstance(pair, Iterable),
            TypeError,
            f"{where} should be Iterable; is{type(pair).__name__}",
        )
        pair = tuple(pair)
        check(len(pair) == 2, ValueError, f"{where} has length {len(pair)}; 2 is required")
        pairs.append(pair)
    return pairs


def _as_parameter(value):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _described(value, kind):
    """One entry in the repr of a container; `kind` words the type of a tensor."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    place = f" (GPU {value.get_device()})" if value.is_cuda else ""
    word = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{word} containing: [{kind(value)} of size {size}{place}]"


class ParameterList(Module):
    """A list of parameters, which are registered; tensors put in become parameters.

    Other values can be held too. It cannot be called.

    >>> import ember as torch
    >>> weights = torch.nn.ParameterList([torch.ones(2), torch.ones(3)])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _get_abs_string_index(self, idx):
        index = operator.index(idx)
        check(-len(self) <= index < len(self), IndexError, f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(self[place] for place in range(*index.indices(len(self))))
        return getattr(self, self._get_abs_string_index(index))

    def __setitem__(self, index, value):
        setattr(self, self._get_abs_string_index(index), _as_parameter(value))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[place] for place in range(len(self))])

    def append(self, value):
        """Add a value at the end; returns self."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values):
        """Add values at the end; returns self."""
        check(
            isinstance(values, Iterable) and not isinstance(values, Tensor),
            TypeError,
            "ParameterList.extend should be called with an iterable, but got "
            f"{type(values).__name__}",
        )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self):
        return "\n".join(
            f"  ({place}): {_described(value, lambda t: t.dtype)}"
            for place, value in enumerate(self)
        )


class ParameterDict(Module):
    """Parameters by name, which are registered; tensors put in become parameters.

    Takes a mapping (a plain dict is taken in the order of its sorted keys) or pairs. Other values
    can be held too. It cannot be called.

    >>> import ember as torch
    >>> weights = torch.nn.ParameterDict({"left": torch.ones(2)})
    >>> weights["left"].requires_grad
    True
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        check(
            isinstance(key, str),
            TypeError,
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}').",
        )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        setattr(self, self._key_to_attr(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def get(self, key, default=None):
        """The value of that name, or `default`."""
        if key not in self:
            return default
        return self[key]

    def setdefault(self, key, default=None):
        """The value of that name, after putting `default` there if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key):
        """Take the value of that name out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Take the last value out and return (name, value)."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def clear(self):
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def copy(self):
        """Another ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys, default=None):
        """A new ParameterDict with `default` under each of the keys."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters):
        """Take in a mapping or pairs; values of the same names are replaced."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = list(parameters.items())
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items(), key=lambda pair: pair[0])
        else:
            pairs = pairs_of(parameters, "ParameterDict", "ParametersDict")
        for key, value in pairs:
            self[key] = value

    def __or__(self, other):
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other):
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other):
        self.update(other)
        return self

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self):
        return "\n".join(
            f"  ({key}): {_described(value, type_name)}" for key, value in self.items()
        )
