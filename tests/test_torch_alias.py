"""`import torch` as Ember: each test is a program of its own; the alias changes the process."""

import subprocess
import sys

import pytest


def run(code, *options):
    """The output of a Python program; its failure is the test's."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


START = "import ember\nember.torch_alias.install()\n"


def test_modules_are_the_same_objects():
    run(
        START
        + """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
import torch.backends.cudnn
import sys
assert torch is ember and F is ember.nn.functional
assert DataLoader is ember.utils.data.DataLoader
assert sys.modules["torch.nn"] is sys.modules["ember.nn"]
assert torch.__spec__.name == "ember" and torch.nn.__spec__.name == "ember.nn"
from torch import nn
assert nn is ember.nn
assert torch.__name__ == "torch"
ember.torch_alias.uninstall()
assert ember.__name__ == "ember"
"""
    )


def test_probes_by_libraries():
    run(
        START
        + """
import importlib.util, importlib.metadata
assert importlib.util.find_spec("torch") is not None
import torch
assert importlib.util.find_spec("torch") is not None
assert importlib.util.find_spec("torch.nn.functional") is not None
assert importlib.util.find_spec("torch.not_there") is None
assert importlib.metadata.version("torch") == torch.__version__
assert importlib.metadata.metadata("torch")["Name"] == "torch"
assert importlib.metadata.version("numpy")
"""
    )


def test_missing_module_says_what_exists():
    output = run(
        START
        + """
try:
    import torch.not_there
except ModuleNotFoundError as error:
    print(error.name, "|", error)
try:
    import torch.nn.functional.deeper
except ModuleNotFoundError as error:
    print(error.name, "|", error)
"""
    )
    first, second = output.splitlines()
    assert first.startswith("torch.not_there | No module named 'torch.not_there' in Ember")
    assert "torch has the modules " in first and " nn," in first
    assert second.startswith("torch.nn.functional.deeper | No module named")


def test_missing_name_says_what_comes_close():
    output = run(
        START
        + """
import torch
try:
    torch.zeross
except AttributeError as error:
    print(error)
try:
    from torch import not_there
except ImportError:
    print("ImportError")
"""
    )
    assert output.startswith("module 'torch' has no attribute 'zeross'") and "torch.zeros" in output
    assert output.endswith("ImportError\n")


def test_uninstall_forgets():
    run(
        START
        + """
import sys
import torch.nn
ember.torch_alias.install()
ember.torch_alias.uninstall()
assert not [name for name in sys.modules if name.split(".")[0] == "torch"]
assert not any("torch_alias" in type(finder).__module__ for finder in sys.meta_path)
ember.torch_alias.uninstall()
"""
    )


def test_pytorch_already_imported():
    output = run(
        """
import sys, types
sys.modules["torch"] = types.ModuleType("torch")
sys.modules["torch"].__file__ = "/site/torch/__init__.py"
import ember
try:
    ember.torch_alias.install()
except ImportError as error:
    print(error)
assert not any("torch_alias" in type(finder).__module__ for finder in sys.meta_path)
"""
    )
    assert "PyTorch itself is already imported (from /site/torch/__init__.py)" in output


@pytest.mark.parametrize("module", ["nn", "optim", "utils.data", "autograd", "cuda", "linalg"])
def test_each_package_has_one_identity(module):
    run(
        START
        + f"""
import importlib
assert importlib.import_module("torch.{module}") is importlib.import_module("ember.{module}")
"""
    )


def test_functorch_comes_along():
    run(
        START
        + """
import sys
import functorch
import ember
assert functorch.vmap is ember.func.vmap
try:
    from functorch import dim
except ImportError:
    pass
else:
    raise AssertionError("functorch.dim")
ember.torch_alias.uninstall()
assert "functorch" not in sys.modules
"""
    )


def test_the_documented_example():
    run(
        """
import doctest
import ember
result = doctest.testmod(ember.torch_alias)
assert result.attempted >= 5 and not result.failed
"""
    )
