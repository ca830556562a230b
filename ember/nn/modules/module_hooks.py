"""Hooks of modules: their registration, for one module or for all, and the calls around forward."""

from collections import OrderedDict

from ember.core.hooks import RemovableHandle
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.module_backward import BackwardHook, register_non_full_hooks
from ember.source_lines import warn

_global_parameter_registration_hooks = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None  # None until a global backward hook is registered


def _has_any_global_hook():
    return bool(
        _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def _register(hooks, hook, *flags, prepend=False):
    """Put `hook` among `hooks`, mark it in each of the `flags` dicts, return its handle."""
    handle = RemovableHandle(hooks, extra_dict=list(flags) or None)
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_parameter_registration_hook(hook):
    """Call `hook(module, name, param)` when any module takes a parameter; it may return another."""
    return _register(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook):
    """Call `hook(module, name, buffer)` when any module takes a buffer; it may return another."""
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Call `hook(module, name, child)` when any module takes a child; it may return another."""
    return _register(_global_module_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Call `hook(module, args)` before the forward of every module; it may return new args."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call `hook(module, args, output)` after the forward of every module; it may replace output.

    `with_kwargs` passes the keyword arguments after args; `always_call` calls even after an error.
    """
    flags = [_global_forward_hooks_with_kwargs] * with_kwargs
    flags += [_global_forward_hooks_always_called] * always_call
    return _register(_global_forward_hooks, hook, *flags)


def _choose_global_backward_kind(full):
    global _global_is_full_backward_hook
    check(
        _global_is_full_backward_hook in (None, full),
        RuntimeError,
        "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
        "Please use only one of them.",
    )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook):
    """Call `hook(module, grad_input, grad_output)` of every module's last node (deprecated)."""
    _choose_global_backward_kind(False)
    return _register(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """Call `hook(module, grad_output)` before the backward of every module."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """Call `hook(module, grad_input, grad_output)` after the backward of every module."""
    _choose_global_backward_kind(True)
    return _register(_global_backward_hooks, hook)


class _Call:
    """One call of a module on its way through the hooks."""

    def __init__(self, args, kwargs):
        self.args, self.kwargs, self.result = args, kwargs, None
        self.reached = set()  # the always_call hooks that had their turn

    def run_forward_hook(self, module, hook, with_kwargs):
        if with_kwargs:
            replaced = hook(module, self.args, self.kwargs, self.result)
        else:
            replaced = hook(module, self.args, self.result)
        if replaced is not None:
            self.result = replaced


class ModuleHooks:
    """The part of Module that registers hooks and calls forward between them."""

    _compiled_call_impl = None

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call `hook(module, args)` before forward; what it returns is the new args.

        A single value becomes a tuple of one. `with_kwargs`: `hook(module, args, kwargs)`, which
        returns None or (args, kwargs). `prepend` puts it before the hooks already there.
        """
        flags = [self._forward_pre_hooks_with_kwargs] * with_kwargs
        return _register(self._forward_pre_hooks, hook, *flags, prepend=prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call `hook(module, args, output)` after forward; what it returns is the new output.

        `with_kwargs`: `hook(module, args, kwargs, output)`. `always_call`: also when forward or
        an earlier hook raised, then with output None.

        >>> import ember as torch
        >>> double = torch.nn.Identity()
        >>> handle = double.register_forward_hook(lambda module, args, output: output * 2)
        >>> double(torch.ones(1))
        tensor([2.])
        >>> handle.remove()
        """
        flags = [self._forward_hooks_with_kwargs] * with_kwargs
        flags += [self._forward_hooks_always_called] * always_call
        return _register(self._forward_hooks, hook, *flags, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call `hook(module, grad_output)` before this module's backward; it may replace it."""
        return _register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Call `hook(module, grad_input, grad_output)` after this module's backward.

        The gradients are tuples over the positional arguments and the outputs, None for what is no
        tensor. It may return a new grad_input. Raises RuntimeError beside non-full hooks.
        """
        self._choose_backward_kind(True)
        return _register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """Call `hook` on the last node of this module's forward (deprecated: use the full one)."""
        self._choose_backward_kind(False)
        return _register(self._backward_hooks, hook)

    def _choose_backward_kind(self, full):
        check(
            self._is_full_backward_hook in (None, full),
            RuntimeError,
            "Cannot use both regular backward hooks and full backward hooks on a single Module. "
            "Please use only one of them.",
        )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self):
        """(full hooks, non-full hooks), global ones first."""
        full, non_full = [], []
        if _global_is_full_backward_hook is not None:
            kind = full if _global_is_full_backward_hook else non_full
            kind.extend(_global_backward_hooks.values())
        if self._is_full_backward_hook is not None:
            kind = full if self._is_full_backward_hook else non_full
            kind.extend(self._backward_hooks.values())
        return full, non_full

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _wrapped_call_impl(self, *args, **kwargs):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        call = _Call(args, kwargs)
        try:
            return self._call_between_hooks(call)
        except Exception:
            self._call_missed_hooks(call)
            raise

    __call__ = _wrapped_call_impl

    def _call_between_hooks(self, call):
        self._run_forward_pre_hooks(call)
        full_hooks, non_full_hooks = self._get_backward_hooks()
        pre_hooks = self._get_backward_pre_hooks()
        boundary = None
        if full_hooks or pre_hooks:
            boundary = BackwardHook(self, full_hooks, pre_hooks)
            call.args = boundary.setup_input_hook(call.args)

        call.result = self.forward(*call.args, **call.kwargs)
        for key, hook, with_kwargs, always in self._forward_hooks_in_order():
            if always:
                call.reached.add(key)
            call.run_forward_hook(self, hook, with_kwargs)

        if boundary is not None:
            if not isinstance(call.result, (Tensor, tuple)):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(call.result)}"
                )
            call.result = boundary.setup_output_hook(call.result)
        if non_full_hooks:
            register_non_full_hooks(self, non_full_hooks, call.result, call.args)
        return call.result

    def _run_forward_pre_hooks(self, call):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, call.args, call.kwargs)
                if replaced is not None:
                    check(
                        isinstance(replaced, tuple) and len(replaced) == 2,
                        RuntimeError,
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}.",
                    )
                    call.args, call.kwargs = replaced
            else:
                replaced = hook(self, call.args)
                if replaced is not None:
                    call.args = replaced if isinstance(replaced, tuple) else (replaced,)

    def _forward_hooks_in_order(self):
        """(key, hook, with_kwargs, always_call) of each forward hook, global ones first."""
        sources = (
            (
                _global_forward_hooks,
                _global_forward_hooks_with_kwargs,
                _global_forward_hooks_always_called,
            ),
            (
                self._forward_hooks,
                self._forward_hooks_with_kwargs,
                self._forward_hooks_always_called,
            ),
        )
        return [
            (key, hook, key in with_kwargs, key in always)
            for hooks, with_kwargs, always in sources
            for key, hook in hooks.items()
        ]

    def _call_missed_hooks(self, call):
        """After an error: the always_call hooks that were not reached, their errors silenced."""
        for key, hook, with_kwargs, always in self._forward_hooks_in_order():
            if not always or key in call.reached:
                continue
            try:
                call.run_forward_hook(self, hook, with_kwargs)
            except Exception as error:
                kind = "global module" if key in _global_forward_hooks else "module"
                warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}"
                )
