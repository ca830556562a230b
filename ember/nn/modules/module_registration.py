"""How a module takes in parameters, buffers and child modules: by registering or by assigning."""

from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.module_hooks import (
    _global_buffer_registration_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
)
from ember.nn.parameter import Buffer, Parameter


def type_name(value):
    """What messages call the type of a value: 'torch.FloatTensor' for a tensor, else its class.

    >>> type_name("text")
    'str'
    """
    if isinstance(value, Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ in ("builtins", None):
        return kind.__qualname__
    home = kind.__module__
    home = "torch" + home.removeprefix("ember") if home.partition(".")[0] == "ember" else home
    return f"{home}.{kind.__qualname__}"


def _run_registration_hooks(hooks, module, name, value):
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def _remove_from(name, *holders):
    for holder in holders:
        if holder is None or name not in holder:
            continue
        if isinstance(holder, dict):
            del holder[name]
        else:
            holder.discard(name)


class ModuleRegistration:
    """The part of Module that keeps `_parameters`, `_buffers` and `_modules` in order."""

    def _check_name(self, kind, name, registered):
        check(
            isinstance(name, str),
            TypeError,
            lambda: f"{kind} name should be a string. Got {type_name(name)}",
        )
        got = f", got: {name}" if kind == "module" else ""
        check("." not in name, KeyError, f'{kind} name can\'t contain "."{got}')
        check(name != "", KeyError, f'{kind} name can\'t be empty string ""')
        taken = hasattr(self, name) and name not in registered
        check(not taken, KeyError, f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is state but not trained; `persistent=False` keeps it unsaved.

        Raises TypeError for what is no tensor, KeyError for a name that is taken, empty or dotted.

        >>> import ember as torch
        >>> m = torch.nn.Module()
        >>> m.register_buffer("mean", torch.zeros(1))
        >>> list(m.state_dict())
        ['mean']
        """
        missing = "_buffers" not in self.__dict__
        check(not missing, AttributeError, "cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        check(
            tensor is None or isinstance(tensor, Tensor),
            TypeError,
            lambda: (
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            ),
        )
        tensor = _run_registration_hooks(_global_buffer_registration_hooks, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Add a Parameter (or None: a place that holds nothing, as `bias=False` leaves).

        Raises TypeError for what is no Parameter, KeyError for a name that is taken, empty or
        dotted, ValueError for a Parameter with a history.
        """
        missing = "_parameters" not in self.__dict__
        check(not missing, AttributeError, "cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        check(
            isinstance(param, Parameter),
            TypeError,
            lambda: (
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            ),
        )
        check(
            param.grad_fn is None,
            ValueError,
            f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
            f"created explicitly. To express '{name}' as a function of another Tensor, compute "
            "the value in the forward() method.",
        )
        hooks = _global_parameter_registration_hooks
        self._parameters[name] = _run_registration_hooks(hooks, self, name, param)

    def add_module(self, name, module):
        """Add a child module (or None) under `name`."""
        check(
            module is None or _is_module(module),
            TypeError,
            lambda: f"{type_name(module)} is not a Module subclass",
        )
        self._check_name("module", name, self._modules)
        hooks = _global_module_registration_hooks
        self._modules[name] = _run_registration_hooks(hooks, self, name, module)

    def register_module(self, name, module):
        """The same as `add_module`."""
        self.add_module(name, module)

    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            held = self.__dict__.get(kind)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            check(
                parameters is not None,
                AttributeError,
                "cannot assign parameters before Module.__init__() call",
            )
            _remove_from(name, own, own["_buffers"], own["_modules"])
            own["_non_persistent_buffers_set"].discard(name)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            check(value is None, TypeError, _refusal("parameter", name, value))
            self.register_parameter(name, None)
        elif _is_module(value) or name in own.get("_modules", ()):
            self._assign_module(name, value)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            self._assign_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _assign_module(self, name, value):
        own = self.__dict__
        modules = own.get("_modules")
        check(
            modules is not None,
            AttributeError,
            "cannot assign module before Module.__init__() call",
        )
        if _is_module(value):
            _remove_from(name, own, own["_parameters"], own["_buffers"])
            own["_non_persistent_buffers_set"].discard(name)
        check(value is None or _is_module(value), TypeError, _refusal("child module", name, value))
        hooks = _global_module_registration_hooks
        modules[name] = _run_registration_hooks(hooks, self, name, value)

    def _assign_buffer(self, name, value):
        own = self.__dict__
        buffers = own.get("_buffers")
        check(
            buffers is not None,
            AttributeError,
            "cannot assign buffer before Module.__init__() call",
        )
        check(
            value is None or isinstance(value, Tensor), TypeError, _refusal("buffer", name, value)
        )
        if isinstance(value, Buffer):
            _remove_from(name, own, own["_parameters"], own["_modules"])
            self.register_buffer(name, value, value.persistent)
            return
        hooks = _global_buffer_registration_hooks
        buffers[name] = _run_registration_hooks(hooks, self, name, value)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            try:
                object.__delattr__(self, name)
            except AttributeError:
                raise AttributeError(
                    f"'{type(self).__name__}' object has no attribute '{name}'"
                ) from None

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(name for name in names if not name[0].isdigit())


def _is_module(value):
    return isinstance(value, ModuleRegistration)


def _refusal(kind, name, value):
    wanted = {
        "parameter": "torch.nn.Parameter or None",
        "child module": "torch.nn.Module or None",
        "buffer": "torch.nn.Buffer, torch.Tensor or None",
    }[kind]
    return lambda: f"cannot assign '{type_name(value)}' as {kind} '{name}' ({wanted} expected)"
