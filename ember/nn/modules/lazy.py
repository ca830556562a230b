"""Modules whose shapes wait for the first input."""

from ember.errors import check
from ember.nn.parameter import is_lazy


class LazyModuleMixin:
    """Stands before the layer class among the bases: at the first call the layer gets its shapes.

    The subclass defines `initialize_parameters(*input)` and names in `cls_to_become` the class
    that it turns into afterwards.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        # An uninitialized tensor cannot be detached, which would make a copy that has a shape.
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is not None and name not in self._non_persistent_buffers_set:
                kept = keep_vars or is_lazy(tensor)
                destination[prefix + name] = tensor if kept else tensor.detach()

    def _lazy_load_hook(self, state_dict, prefix, *_):
        """Give the waiting tensors the shapes of the ones to be loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if tensor is not None and given is not None and is_lazy(tensor) and not is_lazy(given):
                tensor.materialize(given.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Give the parameters the shapes that this input asks for."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self):
        """Whether any parameter or buffer still waits for its shape."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        """The pre-hook of the first call: initialize, then stop being lazy."""
        module.initialize_parameters(*args, **(kwargs or {}))
        check(
            not module.has_uninitialized_params(),
            RuntimeError,
            f"module {self._get_name()} has not been fully initialized",
        )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )
