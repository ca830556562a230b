"""Calling a module with other tensors in the place of its own."""

from contextlib import contextmanager

from ember.core.tensor import Tensor
from ember.errors import check
from ember.source_lines import warn

__all__ = ["functional_call"]


def _members(module):
    """(path, tensor) of every parameter and buffer, shared ones under each of their paths."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _with_tied_names(module, given):
    """`given` with the other paths of each tied tensor; ValueError if they disagree."""
    groups = {}
    for path, tensor in _members(module):
        groups.setdefault(id(tensor), []).append(path)
    full = dict(given)
    for paths in groups.values():
        named = [path for path in paths if path in given]
        check(
            len({id(given[path]) for path in named}) <= 1,
            ValueError,
            f"functional_call got multiple values for keys {sorted(named)}, which are tied. "
            "Consider using tie_weights=False",
        )
        if named:
            full.update(dict.fromkeys(paths, given[named[0]]))
    return full


def _check_strict(module, given):
    own = [path for path, _ in _members(module)]
    unexpected = [path for path in given if path not in own]
    missing = [path for path in own if path not in given]
    lines = [
        f"{side} key(s): " + ", ".join(map(repr, paths)) + "."
        for side, paths in (("Unexpected", unexpected), ("Missing", missing))
        if paths
    ]
    check(
        not lines,
        RuntimeError,
        f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines),
    )


def _slot(module, path):
    """(dict, name) where the tensor of a path is held."""
    owner_path, _, name = path.rpartition(".")
    owner = module.get_submodule(owner_path)
    for held in (owner._parameters, owner._buffers):
        if name in held:
            return held, name
    return owner.__dict__, name


@contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False
):
    """Inside, the module holds the given tensors; afterwards its own again."""
    given = parameters_and_buffers
    for tensor in given.values():
        check(
            isinstance(tensor, Tensor),
            TypeError,
            lambda value=tensor: f"{value} is not an instance of torch.Tensor",
        )
    full = _with_tied_names(module, given) if tie_weights else dict(given)
    if strict:
        _check_strict(module, full)
    slots = [(path, *_slot(module, path)) for path in full]
    own = [(held, name, name in held, held.get(name)) for _, held, name in slots]
    try:
        for path, held, name in slots:
            held[name] = full[path]
        yield
    finally:
        for path, held, name in slots:
            if path in given and isinstance(held.get(name), Tensor):
                given[path] = held[name]  # what forward assigned to a buffer
        for held, name, was_there, before in own:
            if was_there:
                held[name] = before
            else:
                held.pop(name, None)


def _merged(dicts):
    """One dict of several. ValueError for a key in two of them, or what is no dict."""
    if isinstance(dicts, dict):
        return dicts
    check(
        isinstance(dicts, (list, tuple)) and all(isinstance(d, dict) for d in dicts),
        ValueError,
        "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
        f"{type(dicts)}",
    )
    merged = {}
    for one in dicts:
        repeated = sorted(merged.keys() & one.keys())
        check(
            not repeated,
            ValueError,
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous",
        )
        merged.update(one)
    return merged


def call_with(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Call a module with other tensors in the place of its own: `torch.func.functional_call`.

    The tensors come by dotted name, in a dict or several. Buffers that forward assigns are put
    into the dict. With `tie_weights`, shared members are replaced together; with `strict`, every
    member must be given and no other name (RuntimeError).

    >>> import ember as torch
    >>> from ember.nn.utils.stateless import call_with
    >>> layer = torch.nn.Linear(1, 1)
    >>> given = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([3.0])}
    >>> call_with(layer, given, torch.ones(1, 1))
    tensor([[5.]])
    """
    given = _merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """The old name of `torch.func.functional_call`, for one dict of tensors."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
    )
    return call_with(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
