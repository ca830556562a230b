"""Moving and casting a module: in place, its parameters staying the same objects."""

import ember.ops as ops
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.dtypes import bfloat16, float16, float32, float64
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.nn.parameter import Parameter, is_lazy
from ember.source_lines import warn

_META_MESSAGE = (
    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
    "torch.nn.Module.to() when moving module from meta to a different device."
)


def _is_inexact(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def _cast(dtype):
    """Cast floating-point tensors to `dtype` and leave the others."""
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor


def parse_to(*args, **kwargs):
    """The arguments of `Module.to` as (device, dtype, non_blocking, memory_format).

    Forms: to(device, dtype, non_blocking), to(dtype, non_blocking), to(tensor, non_blocking).
    """
    check("copy" not in kwargs, RuntimeError, ".to() does not accept copy argument")
    names = ["device", "dtype", "non_blocking"]
    if args and isinstance(args[0], Tensor):
        args = (args[0].device, args[0].dtype, *args[1:])
    elif args and isinstance(args[0], DType):
        names = names[1:]
    elif isinstance(kwargs.get("tensor"), Tensor):
        like = kwargs.pop("tensor")
        kwargs |= {"device": like.device, "dtype": like.dtype}
    given = dict(zip(names, args, strict=False)) | kwargs
    known = {"device", "dtype", "non_blocking", "memory_format"}
    fits = len(args) <= len(names) and not set(names[: len(args)]) & set(kwargs)
    dtype = given.get("dtype")
    fits = fits and given.keys() <= known and (dtype is None or isinstance(dtype, DType))
    check(fits, TypeError, lambda: _refused_arguments(args, kwargs))
    device = given.get("device")
    device = None if device is None else Device(device)
    return device, dtype, bool(given.get("non_blocking")), given.get("memory_format")


def _refused_arguments(args, kwargs):
    listed = [type(value).__name__ for value in args]
    listed += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return (
        f"to() received an invalid combination of arguments - got ({', '.join(listed)}), but "
        "expected one of:\n"
        " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, *, "
        "torch.memory_format memory_format = None)\n"
        " * (torch.dtype dtype, bool non_blocking = False, *, torch.memory_format memory_format = "
        "None)\n"
        " * (Tensor tensor, bool non_blocking = False, *, torch.memory_format memory_format = "
        "None)\n"
    )


class ModuleMoving:
    """The part of Module that moves and casts what it holds."""

    def _apply(self, fn, recurse=True):
        """Pass each parameter, its gradient and each buffer through `fn`, children first."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _applied(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = _applied(buffer, fn) if is_lazy(buffer) else fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Move and cast in place: to(device, dtype), to(dtype), to(tensor), memory_format=...

        A dtype must be floating-point or complex (else TypeError), and only such tensors are
        cast. NotImplementedError if a tensor on `meta` is to have data: see `to_empty`.

        >>> import ember as torch
        >>> torch.nn.Linear(1, 1).to(torch.float64).weight.dtype
        torch.float64
        """
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None:
            check(
                dtype.is_floating_point or dtype.is_complex,
                TypeError,
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}",
            )
            if dtype.is_complex:
                warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers."
                )

        def convert(tensor):
            has_data = device is None or device.type == "meta" or not tensor.is_meta
            check(has_data, NotImplementedError, _META_MESSAGE)
            wanted = dtype if _is_inexact(tensor) else None
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device, wanted, non_blocking, memory_format=memory_format)
            return tensor.to(device, wanted, non_blocking)

        return self._apply(convert)

    def cuda(self, device=None):
        """Move to a GPU, by default the current one; in place."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self):
        """Move to the CPU; in place."""
        return self._apply(lambda tensor: tensor.cpu())

    def type(self, dst_type):
        """Cast all parameters and buffers, integer ones too, to a dtype or a type's name."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self):
        """Cast floating-point parameters and buffers to float32; in place."""
        return self._apply(_cast(float32))

    def double(self):
        """Cast floating-point parameters and buffers to float64; in place."""
        return self._apply(_cast(float64))

    def half(self):
        """Cast floating-point parameters and buffers to float16; in place.

        >>> import ember as torch
        >>> norm = torch.nn.BatchNorm1d(1).half()
        >>> norm.weight.dtype, norm.num_batches_tracked.dtype
        (torch.float16, torch.int64)
        """
        return self._apply(_cast(float16))

    def bfloat16(self):
        """Cast floating-point parameters and buffers to bfloat16; in place."""
        return self._apply(_cast(bfloat16))

    def to_empty(self, *, device, recurse=True):
        """Move to a device without copying: the content of the memory is undefined."""
        return self._apply(lambda tensor: ops.empty_like(tensor, device=device), recurse)

    def share_memory(self):
        """Put the tensors into memory that other processes can map."""
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                tensor.share_memory_()  # says why it cannot
        return self._apply(lambda tensor: tensor.share_memory_())


def _applied(parameter, fn):
    """`parameter` after `fn`: the same object unless it enters or leaves `meta`.

    The gradient is computed before anything is changed, so an error leaves both as they were.
    """
    if is_lazy(parameter):
        parameter.data = fn(parameter.data)
        return parameter
    with no_grad():
        moved = fn(parameter)
        gradient = parameter.grad
        moved_gradient = None if gradient is None else fn(gradient)
    if moved.is_meta == parameter.is_meta:
        if moved_gradient is not None and moved is not parameter:
            parameter.grad = None  # a gradient of the old kind would not fit between the two steps
        parameter.data = moved
    else:
        check(
            parameter.is_leaf,
            AssertionError,
            "a parameter that is no leaf cannot leave or enter meta",
        )
        parameter = Parameter(moved, parameter.requires_grad)
    if moved_gradient is None:
        return parameter
    if moved_gradient.is_meta == gradient.is_meta:
        gradient.data = moved_gradient
    else:
        gradient = moved_gradient.requires_grad_(gradient.requires_grad)
    parameter.grad = gradient
    return parameter
