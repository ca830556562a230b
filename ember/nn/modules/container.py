"""Containers of modules: in a row, in a list, by name."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

from ember.errors import check
from ember.nn.modules.module import Module, _addindent
from ember.nn.modules.parameter_containers import ParameterDict, ParameterList, pairs_of
from ember.source_lines import warn

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class Container(Module):
    """Deprecated: a Module with the given children."""

    def __init__(self, **kwargs):
        super().__init__()
        warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _OrderedModules(Module):
    """What Sequential and ModuleList share: children looked up by position."""

    def _position(self, index):
        """`index` counted from the front; IndexError if it is out of range."""
        index, size = operator.index(index), len(self)
        check(-size <= index < size, IndexError, f"index {index} is out of range")
        return index % size

    def _get_item_by_idx(self, iterator, idx):
        return list(iterator)[self._position(idx)]

    def _get_abs_string_index(self, idx):
        return str(self._position(idx))

    def _number(self, modules):
        """Hold exactly `modules`, named by their positions."""
        self._modules = {str(place): module for place, module in enumerate(modules)}

    def __setitem__(self, index, module):
        setattr(self, self._get_item_by_idx(self._modules, index), module)

    def __delitem__(self, index):
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [names[self._position(index)]]
        for name in gone:
            delattr(self, name)
        self._number(self._modules.values())

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def pop(self, index):
        """Take the module at `index` out and return it."""
        module = self[index]
        del self[index]
        return module


class Sequential(_OrderedModules):
    """Modules called one after the other, each on what the one before gave.

    Takes modules, or one OrderedDict of names to modules.

    >>> import ember as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> net(torch.ones(1, 2)).shape, len(net)
    (torch.Size([1, 3]), 2)
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(place), module) for place, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._get_item_by_idx(self._modules.values(), index)

    def append(self, module):
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Put a module before the one at `index`; returns self."""
        check(isinstance(module, Module), AssertionError, f"module should be of type: {Module}")
        size = len(self)
        check(-size <= index <= size, IndexError, f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._number(modules)
        return self

    def extend(self, sequential):
        """Add the modules of another Sequential (or any iterable) at the end; returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    def _check_other(self, other):
        check(
            isinstance(other, Sequential),
            ValueError,
            f"add operator supports only objects of Sequential class, but {type(other)} is given.",
        )

    def __add__(self, other):
        self._check_other(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_other(other)
        return self.extend(other)

    def _check_times(self, times):
        check(
            isinstance(times, int),
            TypeError,
            f"unsupported operand type(s) for *: {type(self)} and {type(times)}",
        )
        check(
            times > 0,
            ValueError,
            f"Non-positive multiplication factor {times} for {type(self)}",
        )

    def __mul__(self, times):
        self._check_times(times)
        return Sequential(*chain.from_iterable([list(self)] * times))

    __rmul__ = __mul__

    def __imul__(self, times):
        self._check_times(times)
        return self.extend(list(self) * (times - 1))


class ModuleList(_OrderedModules):
    """A list of modules, which are registered as children; it has no forward.

    >>> import ember as torch
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._get_item_by_idx(self._modules.values(), index)

    def append(self, module):
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Put a module before the one at `index`, as list.insert does."""
        modules = list(self)
        modules.insert(index, module)
        self.add_module(str(len(self)), module)  # its checks and hooks; then all are numbered anew
        self._number(modules)

    def extend(self, modules):
        """Add modules at the end; returns self."""
        check(
            isinstance(modules, Iterable),
            TypeError,
            "ModuleList.extend should be called with an iterable, but got "
            f"{type(modules).__name__}",
        )
        for module in list(modules):
            self.append(module)
        return self

    def __add__(self, other):
        return type(self)(chain(self, other))

    def __iadd__(self, other):
        return self.extend(other)

    def __repr__(self):
        """Runs of children with the same repr are written once: (0-2): 3 x Linear(...)."""
        runs = []  # [first place, last place, repr]
        for place, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = place
            else:
                runs.append([place, place, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(_addindent(f"{head}: {times}{text}", 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name, in the order in which they came; it has no forward.

    Takes a mapping or pairs of name and module.

    >>> import ember as torch
    >>> choices = torch.nn.ModuleDict({"relu": torch.nn.ReLU(), "tanh": torch.nn.Tanh()})
    >>> choices["relu"], list(choices)
    (ReLU(), ['relu', 'tanh'])
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key):
        """Take the module of that name out and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Take in a mapping or pairs; modules of the same names are replaced."""
        if isinstance(modules, (Mapping, ModuleDict)):
            pairs = list(modules.items())
        else:
            pairs = pairs_of(modules, "ModuleDict", "ModuleDict")
        for key, module in pairs:
            self[key] = module
