"""Write the public names of PyTorch to tools/pytorch_names.txt: one namespace a line.

Only needed when Ember starts to follow a newer release; it is the one tool that imports PyTorch.
docs/compatibility.md measures Ember against that list.
"""

import importlib
import types
import warnings
from pathlib import Path

import torch

TARGET = Path(__file__).with_name("pytorch_names.txt")
NAMESPACES = """
torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn
torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.prune torch.nn.parallel
torch.nn.attention torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.linalg torch.fft
torch.special torch.autograd torch.autograd.functional torch.autograd.graph torch.func torch.amp
torch.cuda torch.cuda.amp torch.random torch.utils.data torch.utils.checkpoint torch.utils.dlpack
torch.distributions torch.distributed torch.testing torch.profiler torch.jit torch.fx
torch.compiler torch.sparse torch.signal.windows torch.overrides torch.library torch.hub
torch.multiprocessing torch.masked torch.nested torch.export torch.onnx torch.futures torch.package
torch.accelerator torch.cpu torch.mps torch.xpu torch.autograd.profiler torch.autograd.forward_ad
torch.utils.benchmark torch.utils.tensorboard torch.backends.cuda torch.backends.mps
""".split()
# Names that a module only uses itself, seen through dir().
BORROWED = ("typing", "collections", "functools", "contextlib", "enum", "abc", "warnings", "copy")
BORROWED += (
    "dataclasses",
    "weakref",
    "threading",
    "types",
    "os",
    "itertools",
    "inspect",
    "operator",
)
BORROWED += ("importlib", "numpy", "random", "math", "re", "pathlib", "typing_extensions")


def find(namespace):
    """The module or class of a dotted name."""
    if namespace == "torch.Tensor":
        return torch.Tensor
    return importlib.import_module(namespace)


def public_names(namespace):
    """The public names of a namespace: what it declares, or else what it holds and owns."""
    place = find(namespace)
    declared = None if namespace in ("torch", "torch.Tensor") else getattr(place, "__all__", None)
    names = []
    for name in declared or dir(place):
        value = getattr(place, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        home = (getattr(value, "__module__", None) or "").partition(".")[0]
        if not declared and (home in BORROWED or name.isupper() or not callable(value)):
            if namespace != "torch.Tensor" and not isinstance(value, (torch.dtype, torch.layout)):
                continue
        if namespace == "torch" and callable(value) and not is_documented(value):
            continue
        names.append(name)
    return sorted(set(names))


def is_documented(value):
    """Whether a callable at the top level is for users: the compiler's own parts have no text."""
    if isinstance(value, type) and value.__module__.startswith("torch"):
        known = ("Tensor", "Storage", "Size", "Generator", "device", "dtype", "layout")
        return value.__name__.endswith(known) or bool(value.__doc__)
    return bool(value.__doc__)


def main():
    warnings.simplefilter("ignore")
    lines = [f"# PyTorch {torch.__version__.partition('+')[0]}"]
    lines += [f"{namespace}: {' '.join(public_names(namespace))}" for namespace in NAMESPACES]
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {sum(len(line.split()) - 1 for line in lines[1:])} names")


if __name__ == "__main__":
    main()
