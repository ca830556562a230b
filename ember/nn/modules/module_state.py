"""State dicts: what a module saves, and how it takes it back."""

import itertools
from collections import OrderedDict, namedtuple

from ember.core.hooks import RemovableHandle
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.parameter import Parameter, is_lazy
from ember.source_lines import warn

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What `load_state_dict` returns: the keys of only one side."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WrappedHook:
    """A load pre-hook, which may want its module as the first argument."""

    def __init__(self, hook, module=None):
        self.hook = hook
        self.module = module
        self.with_module = module is not None

    def __call__(self, *args, **kwargs):
        if self.with_module:
            return self.hook(self.module, *args, **kwargs)
        return self.hook(*args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module} if self.with_module else state

    def __setstate__(self, state):
        self.hook, self.with_module = state["hook"], state["with_module"]
        self.module = state.get("module")


class ModuleState:
    """The part of Module that saves and loads."""

    _version = 1

    def _register_state_dict_hook(self, hook):
        # hook(module, state_dict, prefix, local_metadata) may return another dict
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_post_hook(self, hook):
        """Call `hook(module, state_dict, prefix, local_metadata)` after each `state_dict()`.

        It may change the dict in place, and must return None.
        """
        hook._from_public_api = True
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook):
        """Call `hook(module, prefix, keep_vars)` before each `state_dict()`."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        wrapped = _WrappedHook(hook, self if with_module else None)
        self._load_state_dict_pre_hooks[handle.id] = wrapped
        return handle

    def register_load_state_dict_pre_hook(self, hook):
        """Call `hook` before this module takes its part of a state dict.

        Its arguments: module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs; it may change the dict and the lists.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Call `hook(module, incompatible_keys)` after this module was loaded.

        It may change the lists of keys in place, and must return None.
        """
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    def get_extra_state(self):
        """What a subclass saves beside its tensors; it must define `set_extra_state` too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Define get_extra_state in your module before asking for it."
        )

    def set_extra_state(self, state):
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Define set_extra_state in your module before asking for it."
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Write this module's own tensors, not those of its children."""
        saved_buffers = [
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        ]
        for name, tensor in itertools.chain(self._parameters.items(), saved_buffers):
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Parameters and persistent buffers by dotted name, sharing memory with the module.

        The tensors are detached unless `keep_vars`; `destination` is a dict to fill.

        >>> import ember as torch
        >>> list(torch.nn.Linear(2, 3).state_dict(prefix="head."))
        ['head.weight', 'head.bias']
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given = [destination, prefix, keep_vars]
            given[: len(args)] = args
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                check(result is None, RuntimeError, "state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _load_from_state_dict(
        self,
        state_dict,
        prefix,
        local_metadata,
        strict,
        missing_keys,
        unexpected_keys,
        error_msgs,
    ):
        """Take this module's own tensors, not its children's, and note what does not fit.

        The keys under `prefix` are this module's; the three lists are added to, not returned.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {name: p for name, p in self._parameters.items() if p is not None}
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                own[name] = buffer
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, tensor, key, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys.extend(self._unexpected_keys(state_dict, prefix, own))

    def _load_tensor(self, name, tensor, key, given, assign):
        """Copy `given` into `tensor`, or put it in its place; a message if that cannot be."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(given)}"
            )
        if is_lazy(tensor) and is_lazy(given):
            return None
        if not is_lazy(tensor):
            if len(given.shape) == 1 and tensor.dim() == 0:
                given = given[0]  # scalars were saved with one dim before PyTorch 0.4
            if given.shape != tensor.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {given.shape} from "
                    f"checkpoint, the shape in current model is {tensor.shape}."
                )
        if tensor.is_meta and not given.is_meta and not assign:
            warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding "
                "key in the module instead of copying them in place?)"
            )
        try:
            with no_grad():
                if assign:
                    self._take_over(name, tensor, given)
                else:
                    tensor.copy_(given)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {given.size()}, "
                f"an exception occurred : {error.args}."
            )
        return None

    def _take_over(self, name, tensor, given):
        if isinstance(tensor, Parameter):
            if isinstance(given, Parameter):
                given.requires_grad_(tensor.requires_grad)
            else:
                given = Parameter(given, requires_grad=tensor.requires_grad)
        setattr(self, name, given)

    def _load_extra_state(self, state_dict, prefix, strict, missing_keys, unexpected_keys):
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _unexpected_keys(self, state_dict, prefix, own):
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + _EXTRA_STATE_KEY_SUFFIX:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (self._modules if dot else own):
                yield key

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy a state dict's values into this module's tensors, which stay the same objects.

        `strict` wants the same keys on both sides; `assign` takes the dict's tensors over in
        place of the module's own. Returns (missing_keys, unexpected_keys). As in PyTorch, what
        fits is loaded even when the rest raises: TypeError for what is no mapping, RuntimeError
        that lists missing and unexpected keys and sizes that differ.

        >>> import ember as torch
        >>> net = torch.nn.Linear(1, 1)
        >>> net.load_state_dict({"weight": torch.ones(1, 1), "bias": torch.zeros(1)})
        <All keys matched successfully>
        """
        check(
            hasattr(state_dict, "keys") and hasattr(state_dict, "__getitem__"),
            TypeError,
            f"Expected state_dict to be dict-like, got {type(state_dict)}.",
        )
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        keys = _IncompatibleKeys([], [])
        error_msgs = []
        _load_tree(self, state_dict, metadata or {}, assign, keys, error_msgs)
        if strict:
            sides = (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys))
            error_msgs[:0] = [
                f"{side} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in listed) + ". "
                for side, listed in sides
                if listed
            ]
        if error_msgs:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(error_msgs)
            )
        return keys


def _load_tree(module, state_dict, metadata, assign, keys, error_msgs, prefix=""):
    local_metadata = dict(metadata.get(prefix[:-1], {}))  # the checkpoint's own stays as it is
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    # Every module checks strictly; load_state_dict decides what a mismatch means.
    module._load_from_state_dict(
        state_dict,
        prefix,
        local_metadata,
        True,
        keys.missing_keys,
        keys.unexpected_keys,
        error_msgs,
    )
    for name, child in module._modules.items():
        if child is not None:
            start = f"{prefix}{name}."
            part = {key: value for key, value in state_dict.items() if key.startswith(start)}
            _load_tree(child, part, metadata, assign, keys, error_msgs, start)
    for hook in module._load_state_dict_post_hooks.values():
        check(
            hook(module, keys) is None,
            AssertionError,
            "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
            "return new values, if incompatible_keys need to be modified, it should be done "
            "inplace.",
        )
