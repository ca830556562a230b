"""The house rules: levels, sizes, imports, docstrings and their examples, and the generated files.

A file imports only from lower levels, or from its own package without a cycle. The numbers are
caps: a file or function that grows past one is to be split, not the cap raised.
"""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
import types
import warnings
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ember"
LONGEST_FILE, LONGEST_FUNCTION = 500, 60

# The modules and packages under ember/ by level; what is not named is of level 7. Files of the two
# lowest levels may import those before them in the list.
LEVELS = {
    0: ["errors", "pytree", "source_lines", "torch_version", "version", "missing"],
    1: ["dtypes", "device", "layout"],
    2: ["scalar"],
    3: ["kernel"],
    4: ["backends"],
    5: ["core"],
    6: ["ops"],
    8: ["devices", "distributed"],
    9: ["torch_alias", "cli", "__main__", "__init__"],
}
ORDER = {
    name: (level, place) for level, names in LEVELS.items() for place, name in enumerate(names)
}
OPEN_LEVEL = 7
# Packages of level 7 that stand on another one, because PyTorch's names or meanings do.
STANDS_ON = {
    "func": {"nn"},  # functional_call and ensembles are of modules
    "_functorch": {"func", "nn", "utils"},  # where libraries import it from
    "_C": {
        "_functorch",
        "futures",
        "overrides",
        "symbolic_numbers",
    },  # other names of what is there
    "__config__": {"settings"},  # threads are a setting
    "_custom_ops": {"library"},  # older names of what is there
    "_dynamo": {"compiler", "overrides"},
    "_higher_order_ops": {"control_flow"},
    "_inductor": {"compiler"},
    "_prims_common": {"settings"},
    "autograd": {"func", "profiler"},  # dual tensors and batched functions; its older face
    "amp": {"nn", "optim"},  # the guard names modules and looks before optimizers step
    "accelerator": {"cpu", "cuda", "mps", "mtia", "xpu"},  # one name for whichever there is
    "ao": {"nn"},
    "capture": {"autograd", "nn"},  # a recording watches modules, and has gradients
    "compiler": {"capture", "nn"},  # a compiled module is a module
    "cpu": {"amp"},  # torch.cpu.amp and torch.cuda.amp are older names of torch.amp
    "cuda": {"amp"},
    "distributions": {"autograd", "linalg"},  # draws have gradients of their own
    "fx": {"nn"},  # graph modules are modules
    "hub": {"serialization"},
    "jit": {"futures", "nn", "serialization"},  # archives hold modules and tensors
    "library": {"autograd"},  # operators with gradients are autograd functions
    # DataParallel speaks of GPUs; attention maps functions of one place over all
    "nn": {"autograd", "cuda", "func"},
    "optim": {"nn"},  # averaged models are modules
    "quantization": {"ao"},  # an older name
    "types": {"autograd", "symbolic_numbers"},  # names for annotations
    # checkpointing is a Function; flops go by module; timers set threads
    "utils": {"autograd", "hub", "nn", "settings"},
}
# Modules that a program may never need: each is imported where it is used first.
SLOW = [
    "llvmlite",
    "scipy",
    "rich",
    "tqdm",
    "safetensors",
    "torch",
    "cuda",
    "cudnn",
    "cupy",
    "cupyx",
    "sklearn",
]
SLOW += ["multiprocessing", "tempfile", "zipfile", "asyncio", "concurrent.futures", "subprocess"]
SLOW += ["argparse", "logging", "unittest", "http", "importlib.metadata", "difflib", "dataclasses"]
SLOW += ["traceback", "inspect", "pathlib", "hashlib", "gzip", "wave"]
SLOW += ["tensorboard", "PIL", "matplotlib"]
# Third-party and slow standard modules that may be imported inside a function.
LAZY = {name.partition(".")[0] for name in SLOW} | {"ml_dtypes", "numpy"}


def files():
    """Every source file of the package, as paths from the root."""
    return sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))


@cache
def parsed(path):
    return ast.parse((ROOT / path).read_text(), filename=str(path))


def module_name(path):
    parts = list(path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def top(name):
    """The part of a dotted name under ember: "ember.nn.modules" -> "nn"."""
    return (name.split(".") + ["__init__"])[1]


def level(name):
    return ORDER.get(top(name), (OPEN_LEVEL, 0))[0]


def may_import(here, name):
    """Whether the module `here` may import the module `name`."""
    if top(name) == top(here) or level(here) == 9:
        return True
    if level(here) in (0, 1) and level(name) == level(here):
        return ORDER[top(name)] < ORDER[top(here)]
    return level(name) < level(here) or top(name) in STANDS_ON.get(top(here), ())


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(path):
    """(name, line, whether inside a function) of each import but those for type checkers."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if is_type_checking(child):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, child.lineno, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    parts = module_name(path).split(".")
                    keep = len(parts) - child.level + (path.name == "__init__.py")
                    base = ".".join([*parts[:keep], *([base] if base else [])])
                for alias in child.names:
                    full = f"{base}.{alias.name}"
                    yield (full if is_module(full) else base), child.lineno, inside
            functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
            yield from walk(child, inside or isinstance(child, functions))

    return list(walk(parsed(path), False))


def is_module(name):
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def own_imports(path):
    return [found for found in imports(path) if found[0].split(".")[0] == "ember"]


def test_imports_go_down():
    wrong = []
    for path in files():
        here = module_name(path)
        for name, line, _ in own_imports(path):
            if not may_import(here, name):
                levels = f"level {level(here)} imports {name} (level {level(name)})"
                wrong.append(f"{path}:{line}: {levels}")
    assert not wrong, "\n".join(wrong)


def test_imports_make_no_cycle():
    graph = {
        module_name(path): {
            name for name, _, inside in own_imports(path) if not inside and name != "ember"
        }
        - {module_name(path)}
        for path in files()
        if level(module_name(path)) < 9
    }
    done, cycles = set(), []

    def visit(name, trail):
        if name in trail:
            cycles.append(" -> ".join([*trail[trail.index(name) :], name]))
        elif name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, [*trail, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    assert not cycles, "\n".join(cycles)


def test_imports_stand_at_the_top():
    wrong = [
        f"{path}:{line}: {name}"
        for path in files()
        for name, line, inside in imports(path)
        if inside
        and name.split(".")[0] not in LAZY
        and name.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not wrong, "imported inside a function:\n" + "\n".join(wrong)


def test_pytorch_is_never_imported():
    wrong = [
        f"{path}:{line}: {name}"
        for path in files()
        for name, line, _ in imports(path)
        if name.split(".")[0] in ("torch", "torchvision", "tinygrad", "jax")
    ]
    assert not wrong, "\n".join(wrong)


def test_files_are_short():
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in files()}
    wrong = [f"{path}: {count} lines" for path, count in lengths.items() if count > LONGEST_FILE]
    assert not wrong, "\n".join(wrong)


def test_functions_are_short():
    wrong = []
    for path in files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = node.end_lineno - node.lineno + 1
                if count > LONGEST_FUNCTION:
                    wrong.append(f"{path}:{node.lineno}: {node.name} has {count} lines")
    assert not wrong, "\n".join(wrong)


def test_names_say_something():
    vague = ("util2", "utils2", "impl", "helper", "helpers", "misc", "common", "stuff")
    by_pytorch = ("symbolic_helper", "_prims_common")  # names that programs import
    wrong = [
        str(path)
        for path in files()
        if path.stem.strip("_").split("_")[-1] in vague and path.stem not in by_pytorch
    ]
    assert not wrong, "\n".join(wrong)


def loaded_after(statement):
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_slow_modules_wait_for_their_first_use():
    for_numpy = loaded_after("import numpy, ml_dtypes")
    loaded = loaded_after("import ember") - for_numpy
    early = [name for name in SLOW if name in loaded]
    assert not early, f"import ember loads {early}"


@cache
def modules():
    """Every module of the package but the entry points, imported."""
    found = [importlib.import_module("ember")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for info in pkgutil.walk_packages([str(PACKAGE)], "ember."):
            if info.name != "ember.__main__" and not info.name.startswith("ember.backends.cuda"):
                found.append(importlib.import_module(info.name))
    return found


def is_public(name):
    return not any(part.startswith("_") for part in name.split("."))


def own_things(module):
    """The public classes, functions and ops that a module defines, by name."""
    for name, thing in vars(module).items():
        kinds = isinstance(thing, type) or inspect.isroutine(thing) or hasattr(thing, "parameters")
        own = getattr(thing, "__module__", None) == module.__name__
        if is_public(name) and kinds and own and not isinstance(thing, types.ModuleType):
            yield name, thing


def test_what_is_public_is_documented():
    wrong = []
    for module in modules():
        if not is_public(module.__name__):
            continue
        if not (module.__doc__ or "").strip():
            wrong.append(f"{module.__name__}: the module")
        for name, thing in own_things(module):
            if not inspect.getdoc(thing):
                wrong.append(f"{module.__name__}.{name}")
            if isinstance(thing, type):
                for member, value in vars(thing).items():
                    if is_public(member) and callable(value) and not isinstance(value, type):
                        if not inspect.getdoc(getattr(thing, member)):
                            wrong.append(f"{module.__name__}.{name}.{member}")
    assert not wrong, "without a docstring:\n" + "\n".join(wrong)


def examples(module):
    """(name, docstring) of everything in a module whose docstring has an example."""
    found = {module.__name__: module.__doc__ or ""}
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        found[f"{module.__name__}.{name}"] = getattr(thing, "__doc__", None) or ""
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                found[f"{module.__name__}.{name}.{member}"] = getattr(value, "__doc__", None) or ""
    return [(name, doc) for name, doc in found.items() if isinstance(doc, str) and ">>>" in doc]


class ExampleRunner(doctest.DocTestRunner):
    """Runs examples, and keeps one line for each that fails."""

    def __init__(self):
        super().__init__(verbose=False)
        self.wrong = []

    def report_failure(self, out, test, example, got):
        text = f"{example.source.strip()} gives {got.strip()!r}, not {example.want.strip()!r}"
        self.wrong.append(f"{test.name}: {text}")

    def report_unexpected_exception(self, out, test, example, exc_info):
        error = f"{exc_info[0].__name__}: {exc_info[1]}"
        self.wrong.append(f"{test.name}: {example.source.strip()} raises {error}")


def test_examples_run():
    # The alias's own example changes what `import torch` means: tests/test_torch_alias.py runs it.
    parser, runner = doctest.DocTestParser(), ExampleRunner()
    for module in modules():
        if module.__name__ == "ember.torch_alias":
            continue
        for name, doc in examples(module):
            test = parser.get_doctest(doc, dict(vars(module)), name, module.__file__, 0)
            runner.run(test, out=lambda text: None)
    assert runner.tries > 100
    assert not runner.wrong, "\n".join(runner.wrong)


def test_generated_files_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "tools/gen_api.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_project_texts_are_there(name):
    assert len((ROOT / name).read_text()) > 200
