"""Modules made without initialising their parameters."""

from ember.errors import check
from ember.nn.modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """An instance of a module class whose parameters are left as the memory was found.

    The class must take `device`: it is made on `meta` first. TypeError for what is no module
    class, RuntimeError for one without `device`.

    >>> import ember as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 5, 1)
    Linear(in_features=5, out_features=1, bias=True)
    """
    check(issubclass(module_cls, Module), RuntimeError, f"Expected a Module; got {module_cls}")
    check(
        "device" in _argument_names(module_cls.__init__),
        RuntimeError,
        "Module must support a 'device' arg to skip initialization",
    )
    final_device = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=final_device)


def _argument_names(function):
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
