"""`import torch` as Ember: a finder that answers `torch.x.y` with the module `ember.x.y` itself."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec as find_module
from types import ModuleType
from typing import Any

from ember.version import __version__ as torch_version
from ember.version import ember_version

ALIAS, OWN = "torch", "ember"
BESIDE = {"functorch": "ember._functorch.functorch"}  # packages that come with PyTorch


class _AliasLoader:
    """Hands out Ember's module under a second name, and leaves the module as it was."""

    def __init__(self, own_name: str):
        self.own_name = own_name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.own_name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the alias's spec into a module that is long executed.
        module.__spec__ = self.own_spec

    def get_code(self, name: str) -> Any:
        """The code of the module, for `python -m torch.distributed.run`."""
        loader: Any = _spec_of(self.own_name).loader  # type: ignore[union-attr]
        return loader.get_code(self.own_name)


class _AliasFinder:
    """The finder on `sys.meta_path`: for imports, and for `importlib.metadata.version("torch")`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in BESIDE:
            return ModuleSpec(name, _AliasLoader(BESIDE[name]), is_package=False)
        if name != ALIAS and not name.startswith(ALIAS + "."):
            return None
        own_name = OWN + name[len(ALIAS) :]
        loaded = sys.modules.get(own_name)
        if loaded is None:
            own_spec = _spec_of(own_name)
            if own_spec is None:
                # `importlib.util.find_spec` asks, and takes None; an import needs a reason.
                if sys._getframe(2).f_globals.get("__name__") == "importlib.util":
                    return None
                raise ModuleNotFoundError(_missing(name), name=name)
            is_package, origin = own_spec.submodule_search_locations is not None, own_spec.origin
        else:
            is_package, origin = hasattr(loaded, "__path__"), getattr(loaded, "__file__", None)
        return ModuleSpec(name, _AliasLoader(own_name), origin=origin, is_package=is_package)

    @staticmethod
    def find_distributions(context: Any = None) -> Any:
        if context is not None and context.name not in (None, ALIAS):
            return
        from importlib import metadata  # slow to import; whoever asks has it already

        class TorchDistribution(metadata.Distribution):
            """What packages that ask for the installed version of torch are told."""

            def read_text(self, filename: str) -> str | None:
                if filename in ("METADATA", "PKG-INFO"):
                    return f"Metadata-Version: 2.1\nName: {ALIAS}\nVersion: {torch_version}\n"
                return None

            def locate_file(self, path: Any) -> Any:
                raise FileNotFoundError(f"{path}: torch is Ember here, which has no such file")

        yield TorchDistribution()


_finder = _AliasFinder()


def _spec_of(own_name: str) -> ModuleSpec | None:
    try:
        return find_module(own_name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(OWN):
            raise  # a package that one of Ember's modules needs, not a module of ours
        return None


def _missing(name: str) -> str:
    from pkgutil import iter_modules  # slow to import, and only needed for a message

    parent_name, _, _ = name.rpartition(".")
    parent = sys.modules[OWN + parent_name[len(ALIAS) :]]
    known = {found.name for found in iter_modules(getattr(parent, "__path__", []))}
    listed = ", ".join(sorted(word for word in known if not word.startswith("_")))
    there = f"{parent_name} has the modules {listed}" if listed else f"{parent_name} has no modules"
    return f"No module named '{name}' in Ember {ember_version}; {there}"


def install() -> None:
    """Make `import torch` and `import torch.x.y` give Ember's modules in this process.

    ImportError if PyTorch itself has been imported: their objects cannot be told apart by name.

    >>> import ember
    >>> ember.torch_alias.install()
    >>> import torch.nn.functional as F
    >>> F is ember.nn.functional
    True
    >>> ember.torch_alias.uninstall()
    """
    loaded = sys.modules.get(ALIAS)
    if loaded is not None and loaded is not sys.modules[OWN]:
        raise ImportError(
            f"torch_alias.install(): PyTorch itself is already imported "
            f"(from {getattr(loaded, '__file__', 'an unknown place')}). Install the alias before "
            "anything imports torch, or start the program with `ember run`.",
            name=ALIAS,
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    sys.modules[OWN].__name__ = ALIAS  # libraries that patch names by path ask torch for its own


def uninstall() -> None:
    """Undo `install`: later imports of torch look for PyTorch; modules given out stay usable."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    sys.modules[OWN].__name__ = OWN
    for name in [name for name in sys.modules if name == ALIAS or name.startswith(ALIAS + ".")]:
        own = sys.modules.get(OWN + name[len(ALIAS) :])
        if own is not None and sys.modules[name] is own:
            del sys.modules[name]
    for name, own_name in BESIDE.items():
        if name in sys.modules and sys.modules[name] is sys.modules.get(own_name):
            del sys.modules[name]
