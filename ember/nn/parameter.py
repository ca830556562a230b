"""Parameters and buffers: the tensors that a module owns, trains, moves and saves."""

from collections import OrderedDict

import ember.ops as ops
from ember.core.tensor import Tensor, disabled_torch_function, tensor_of
from ember.errors import check

# what a tensor notes about itself beside its class attributes: never part of a pickle
_BOOKKEEPING = {
    "_accumulate",
    "_array",
    "_base_memory",
    "_no_grad_base",
    "_post_accumulate_hooks",
}


class _ParameterMeta(type(Tensor)):
    """Lets a tensor of another subclass count as a Parameter once it was made one."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and _marked(instance, "_is_param")


class _BufferMeta(type(Tensor)):
    """Lets `isinstance(t, Buffer)` ask for the mark: a buffer keeps its own tensor class."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and _marked(instance, "_is_buffer")


def _marked(tensor, mark):
    return getattr(tensor, mark, False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A leaf tensor that a module registers as trainable when it is assigned as an attribute.

    It shares memory with `data` and wants gradients unless `requires_grad=False`. Raises
    RuntimeError if gradients are wanted of an integer or bool tensor.

    >>> import ember as torch
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> w.requires_grad, w.is_leaf
    (True, True)
    """

    __torch_function__ = disabled_torch_function  # results of ops are plain tensors
    _shown_as = "tensor"

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = ops.empty(0)
        check(isinstance(data, Tensor), TypeError, f"Parameter wants a Tensor, got {type(data)}")
        check(
            not requires_grad or data.is_floating_point() or data.is_complex(),
            RuntimeError,
            "Only Tensors of floating point and complex dtype can require gradients",
        )
        if type(data) in (Tensor, Parameter):
            parameter = Tensor.__new__(cls)
            parameter._array = data._array
            if requires_grad:
                parameter._requires_grad = True
            return parameter
        parameter = data.detach().requires_grad_(requires_grad)
        parameter._is_param = True
        return parameter

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        state = {
            name: value
            for name, value in vars(self).items()
            if not hasattr(Tensor, name) and name not in _BOOKKEEPING
        }
        base = (self.data, self.requires_grad, OrderedDict())
        if not state:
            return _rebuild_parameter, base
        return _rebuild_parameter_with_state, (*base, state)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """What an unpickled Parameter is made by; hooks are never pickled."""
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    parameter = Parameter(data, requires_grad)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as state, not trained, when it is assigned.

    The result is a plain tensor, marked; `persistent=False` keeps it out of the state dict.

    >>> import ember as torch
    >>> m = torch.nn.Module()
    >>> m.mean = torch.nn.Buffer(torch.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """

    __torch_function__ = disabled_torch_function  # results of ops are plain tensors

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = ops.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor that knows its dtype and device but not yet its shape: ops refuse it."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=None, device=None, dtype=None):
        made = Tensor.__new__(cls)
        made._array = ops.empty(0, device=device, dtype=dtype)._array
        made._requires_grad = (
            cls.cls_to_become is Parameter if requires_grad is None else requires_grad
        )
        return made

    def materialize(self, shape, device=None, dtype=None):
        """Give it a shape and memory of any content; it becomes an ordinary tensor, in place."""
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        array = ops.empty(shape, device=device, dtype=dtype)._array
        del self.__dict__["_placeholder"]
        self.__class__ = self.cls_to_become
        self._array = array

    @property
    def _array(self):
        kind = type(self).__name__
        raise ValueError(
            f"Attempted to use an uninitialized parameter. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{kind}` objects. When "
            "using LazyModules Call `forward` with a dummy batch to initialize the parameters "
            "before calling torch functions"
        )

    @_array.setter
    def _array(self, array):
        self.__dict__["_placeholder"] = array

    @property
    def data(self):
        """An empty tensor of the same dtype and device."""
        return tensor_of(self.__dict__["_placeholder"])

    @data.setter
    def data(self, value):
        self._array = value._array

    @property
    def dtype(self):
        """The type that the elements will have."""
        return self.data.dtype

    @property
    def device(self):
        """Where the elements will be."""
        return self.data.device

    @property
    def is_meta(self):
        """Whether it will have a shape and no elements."""
        return self.data.is_meta

    def detach(self):
        """Itself: there is nothing to detach."""
        return self

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self):
        """Refuse: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter of a lazy module, whose shape the first input decides."""

    cls_to_become = Parameter


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module, whose shape the first input decides."""

    __torch_function__ = disabled_torch_function  # results of ops are plain tensors

    cls_to_become = Tensor


def is_lazy(parameter):
    """Whether the parameter or buffer still waits for its shape."""
    return isinstance(parameter, UninitializedTensorMixin)
