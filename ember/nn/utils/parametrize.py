"""Parametrizations: a parameter or buffer computed from another each time it is read.

A parametrized module gets a class of its own, with a property for each such tensor, and a child
`parametrizations` that holds the originals and the modules that map them.
"""

import copy
from contextlib import contextmanager, suppress

from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.container import ModuleDict, ModuleList
from ember.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache = {}
_cache_depth = [0]


@contextmanager
def cached():
    """Inside, each parametrized tensor is computed once.

    >>> import ember as torch
    >>> with torch.nn.utils.parametrize.cached():
    ...     pass
    """
    _cache_depth[0] += 1
    try:
        yield
    finally:
        _cache_depth[0] -= 1
        if not _cache_depth[0]:
            _cache.clear()


def _hold(module, name, tensor):
    """Register as a parameter what is one, anything else as a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and its original (or originals 0, 1, ...).

    Called, it gives the tensor. ValueError if the result has another shape or dtype, unless
    `unsafe`.
    """

    def __init__(self, modules, original, unsafe=False):
        check(modules, ValueError, "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        originals = self._invert(original)
        self.is_tensor = isinstance(originals, Tensor)
        if self.is_tensor:
            if isinstance(original, Parameter):
                original.data = originals.detach()
                originals = original
            _hold(self, "original", originals)
        else:
            self.ntensors = len(originals)
            for place, each in enumerate(originals):
                check(
                    isinstance(each, Tensor),
                    ValueError,
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)"
                    f". Got element {place} of the sequence with type {type(each).__name__}.",
                )
                if isinstance(original, Parameter):
                    each = Parameter(each.detach(), original.requires_grad)
                each.requires_grad_(original.requires_grad)
                _hold(self, f"original{place}", each)
        if not unsafe:
            self._check_result(original)

    def _invert(self, value):
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    # one that cannot invert starts from the tensor as it is
                    with suppress(NotImplementedError):
                        value = module.right_inverse(value)
        return value if isinstance(value, Tensor) else tuple(value)

    def _check_result(self, original):
        result = self()
        check(
            isinstance(result, Tensor),
            ValueError,
            f"A parametrization must return a tensor. Got {type(result).__name__}.",
        )
        for what in ("dtype", "shape"):
            before, after = getattr(original, what), getattr(result, what)
            check(
                before == after,
                ValueError,
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized {what}: {before}\nparametrized "
                f"{what}: {after}",
            )

    def right_inverse(self, value):
        """Set the originals so that the tensor becomes `value`."""
        with no_grad():
            for module in reversed(list(self)):
                check(
                    hasattr(module, "right_inverse"),
                    RuntimeError,
                    f"parametrization {type(module).__name__} does not implement right_inverse.",
                )
                value = module.right_inverse(value)
            originals = (value,) if self.is_tensor else tuple(value)
            for mine, given in zip(self._originals(), originals, strict=True):
                mine.data = given.detach()

    def _originals(self):
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{place}") for place in range(self.ntensors)]

    def forward(self):
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _read(module, name):
    parametrizations = module.parametrizations[name]
    if not _cache_depth[0]:
        return parametrizations()
    key = id(module), name
    if key not in _cache:
        _cache[key] = parametrizations()
    return _cache[key]


def _property_of(name):
    def get(self):
        return _read(self, name)

    def set(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, set)


def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    plain = type_before_parametrizations(self)
    _own_class(replica, plain, list(self.parametrizations))
    return replica


def _refuse_pickling(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _own_class(module, plain, names=()):
    """Give the module a subclass of `plain` of its own, with a property for each name."""
    members = {"__deepcopy__": _deepcopy, "__getstate__": _refuse_pickling}
    members.update((name, _property_of(name)) for name in names)
    module.__class__ = type(f"Parametrized{plain.__name__}", (plain,), members)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Compute a tensor of the module by `parametrization(original)`; returns the module.

    A second one is applied after the first. ValueError for a name that is no parameter, buffer or
    parametrized tensor, and for a change of shape or dtype unless `unsafe`.

    >>> import ember as torch
    >>> class Positive(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight >= 0).all()), type(layer).__name__
    (True, 'ParametrizedLinear')
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        current = _read(module, tensor_name)
        if not unsafe:
            _check_one_more(parametrization, current)
        known.append(parametrization)
        known.unsafe |= unsafe
        return module
    check(
        tensor_name in module._parameters or tensor_name in module._buffers,
        ValueError,
        lambda: (
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        ),
    )
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module, type(module))
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property_of(tensor_name))
    module.parametrizations[tensor_name] = parametrizations
    return module


def _check_one_more(parametrization, current):
    with no_grad():
        result = parametrization(current)
    check(
        isinstance(result, Tensor),
        ValueError,
        f"A parametrization must return a tensor. Got {type(result).__name__}.",
    )
    for what in ("dtype", "shape"):
        check(
            getattr(result, what) == getattr(current, what),
            ValueError,
            f"Registering a parametrization may not change the {what} of the tensor, unless the "
            f"`unsafe` flag is enabled.\nmodule.{what}: {getattr(current, what)}\n"
            f"parametrization(module).{what}: {getattr(result, what)}",
        )


def is_parametrized(module, tensor_name=None):
    """Whether the module has a parametrized tensor, or one of that name."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the tensor an ordinary one again, with its present value or with the original's.

    ValueError if it is not parametrized, or has several originals and leave_parametrized=False.
    """
    check(
        is_parametrized(module, tensor_name),
        ValueError,
        f"Module {module} does not have a parametrization on {tensor_name}",
    )
    known = module.parametrizations[tensor_name]
    original = known._originals()[0]
    check(
        leave_parametrized or known.is_tensor,
        ValueError,
        "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
        "terms of a sequence of tensors.",
    )
    if leave_parametrized:
        with no_grad():
            value = _read(module, tensor_name).detach()
        if known.is_tensor and isinstance(original, Parameter):
            original.data = value
        elif isinstance(original, Parameter):
            original = Parameter(value, original.requires_grad)
        else:
            original = value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _hold(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class of the module without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Give to_module copies of the parametrizations of from_module, and the originals' values."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(from_module.parametrizations[name]().detach()))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        with no_grad():
            for mine, given in zip(
                to_module.parametrizations[name]._originals(), source._originals(), strict=True
            ):
                mine.copy_(given)
    return to_module
