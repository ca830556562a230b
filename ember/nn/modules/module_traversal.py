"""Walking a module's tree: by name, by kind, or everything in order."""

from ember.errors import check
from ember.nn.modules.module_registration import ModuleRegistration
from ember.nn.parameter import Parameter


def _child(module, name):
    check(
        hasattr(module, name),
        AttributeError,
        lambda: f"{type(module).__name__} has no attribute `{name}`",
    )
    return getattr(module, name)


def _child_module(module, name):
    found = _child(module, name)
    check(isinstance(found, ModuleRegistration), AttributeError, f"`{name}` is not an nn.Module")
    return found


class ModuleTraversal:
    """The part of Module that finds and lists its parameters, buffers and submodules."""

    def get_submodule(self, target):
        """The submodule at a dotted path; '' is the module itself. AttributeError if none.

        >>> import ember as torch
        >>> net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Tanh()))
        >>> net.get_submodule("1.0")
        Tanh()
        """
        module = self
        if target == "":
            return module
        for name in target.split("."):
            module = _child_module(module, name)
        return module

    def set_submodule(self, target, module, strict=False):
        """Put `module` at a dotted path; with `strict` the path must hold a module already.

        Raises ValueError for an empty path or what is no module, AttributeError for a path that
        is not there or holds something else.
        """
        check(target != "", ValueError, "Cannot set the submodule without a target name!")
        check(
            isinstance(module, ModuleRegistration),
            ValueError,
            f"`module` is not an nn.Module, found {type(module)}",
        )
        *path, name = target.split(".")
        parent = self.get_submodule(".".join(path))
        if strict or hasattr(parent, name):
            _child_module(parent, name)
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        found = _child(self.get_submodule(path), name)
        check(isinstance(found, Parameter), AttributeError, f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target):
        """The buffer at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = _child(owner, name)
        check(name in owner._buffers, AttributeError, f"`{name}` is not a buffer")
        return found

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        owners = [(prefix, self)]
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, owner in owners:
            for name, member in get_members_fn(owner):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield path + ("." if path else "") + name, member

    def parameters(self, recurse=True):
        """Each parameter once; `recurse=False` leaves out those of submodules."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter) for each parameter; a shared one comes once by default.

        >>> import ember as torch
        >>> [name for name, _ in torch.nn.Linear(2, 3).named_parameters(prefix="head")]
        ['head.weight', 'head.bias']
        """
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse=True):
        """Each buffer once, persistent or not."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) for each buffer, persistent or not."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self):
        """Each direct child module once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """(name, child) for each direct child module; a shared one comes once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self):
        """The module itself and every submodule, parents first, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) for the module itself (named `prefix`) and every submodule.

        `memo` is the set of modules already seen, which are left out.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, path, remove_duplicate)
