"""`ember run`: a Python program as `python` would run it, with Ember answering `import torch`."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Callable
from types import CodeType, ModuleType, TracebackType
from typing import Any

from ember import torch_alias
from ember.backends import sim

USAGE = (
    "usage: ember run [--gpus N[xMEM][:NAME]] [--ledger[=FILE]] [--report[=FILE]] "
    "(SCRIPT | -c CODE | -m MODULE) [arguments]"
)
HELP = f"""\
{USAGE}

  --gpus N[xMEM][:NAME]   simulate N GPUs, each with MEM of memory: --gpus 2, --gpus 2x16GiB,
                          --gpus 4x80GiB:H100; 0 for none. Subprocesses see the same GPUs.
  --ledger                at exit, show every copy between devices: bytes, time, line of the program
  --ledger=FILE           and write them to FILE: a page for .html, else JSON
  --report[=FILE]         at exit, write a page (report.html) with memory over time, copies, kernels
                          and what is where; `ember report` is the same
  SCRIPT | -c CODE | -m MODULE
                          the program, named as for `python`; what follows it is its own

`import torch` means Ember in the program and in the Python programs that it starts."""
GPUS_VARIABLE = "EMBER_SIMULATE_GPUS"
SUBPROCESS_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "for_subprocesses")


class UsageError(Exception):
    """The command line cannot be understood."""


class Request:
    """What a command line asks for: the program, its arguments, and the options before it."""

    def __init__(self, arguments: list[str]):
        self.gpus: str | None = None
        self.ledger = self.help = False
        self.ledger_file: str | None = None
        self.report: str | None = None
        self.kind, self.program, self.arguments = "", "", []
        rest = list(arguments)
        while rest and not self.kind and not self.help:
            self._take(rest.pop(0), rest)
        if not self.kind and not self.help:
            raise UsageError(f"no program to run\n{USAGE}")
        self.arguments = rest

    def _take(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=")
        if name == "--gpus":
            self.gpus = value if equals else _next(word, rest)
        elif name == "--ledger":
            self.ledger, self.ledger_file = True, value or None
        elif name == "--report":
            self.report = value or "report.html"
        elif self.report is not None and name in ("-o", "--output"):
            self.report = value if equals else _next(word, rest)
        elif word in ("-h", "--help"):
            self.help = True
        elif word in ("-c", "-m"):
            self.kind, self.program = word, _next(word, rest)
        elif word == "--" or not word.startswith("-"):
            self.kind, self.program = "script", _next(word, rest) if word == "--" else word
        else:
            raise UsageError(f"there is no option {word}\n{USAGE}")


def _next(option: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"something must follow {option}\n{USAGE}")
    return rest.pop(0)


def report(arguments: list[str]) -> int:
    """`ember report [-o FILE]`: run a program and write a page about it."""
    return run(["--report", *arguments])


def run(arguments: list[str]) -> int:
    """Run the program that `arguments` name; its errors and exits pass as from `python`."""
    request = Request(arguments)
    if request.help:
        print(HELP)
        return 0
    if request.gpus is not None:
        try:
            sim.configure(request.gpus)
        except ValueError as error:
            raise UsageError(str(error)) from None
        os.environ[GPUS_VARIABLE] = request.gpus
    torch_alias.install()
    _prepare_subprocesses()
    if request.ledger:
        _print_ledger_at_exit(request.ledger_file)
    if request.report is not None:
        _write_report_at_exit(request.report, request.program)
    if request.kind == "-m":
        return _run_module(request)
    if request.kind == "-c":
        sys.argv = ["-c", *request.arguments]
        _set_first_path("")
        return _execute(_main_module(), request.program, "<string>")
    return _run_script(request)


def _prepare_subprocesses() -> None:
    """Let Python programs that this one starts find Ember as `torch`, spawned workers too."""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if SUBPROCESS_PATH not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([SUBPROCESS_PATH, *paths])
    if SUBPROCESS_PATH not in sys.path:  # multiprocessing gives its children this list
        sys.path.insert(1, SUBPROCESS_PATH)


def _print_ledger_at_exit(path: str | None) -> None:
    devices = importlib.import_module("ember.devices")  # programs without a ledger start sooner
    record = devices.ledger()
    record.__enter__()

    def finish() -> None:
        record.__exit__(None, None, None)
        record.print(file=sys.stderr)
        if path is not None:
            record.save(path)

    atexit.register(finish)


_reports: list[Any] = []  # those that are kept of this process


def _write_report_at_exit(path: str, program: str) -> None:
    record = importlib.import_module("ember.devices").report(program)
    record.__enter__()
    _reports.append(record)

    def finish() -> None:
        record.__exit__(None, None, None)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        record.save(path)
        print(f"ember: the report is in {path}", file=sys.stderr)

    atexit.register(finish)


def _set_first_path(first: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = first


def _main_module() -> ModuleType:
    """A fresh `__main__`, in place of Ember's own, with what `python` puts there."""
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={}, __spec__=None)
    sys.modules["__main__"] = module
    return module


def _run_script(request: Request) -> int:
    path = request.program
    sys.argv = [path, *request.arguments]
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        import runpy

        _set_first_path(path)
        return _call(lambda: runpy.run_path(path, run_name="__main__"))
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"ember run: can't open file {os.path.abspath(path)!r}: {reason}", file=sys.stderr)
        return 2
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    module = _main_module()
    # Absolute since Python 3.9, while sys.argv[0] stays as given.
    module.__dict__.update(__file__=os.path.abspath(path), __cached__=None)
    return _execute(module, source, os.path.abspath(path))


def _run_module(request: Request) -> int:
    import runpy

    sys.argv = [request.program, *request.arguments]
    _set_first_path(os.getcwd())
    _main_module()
    # What `python -m` itself calls: unlike runpy.run_module it leaves the new `__main__` in place.
    return _call(lambda: runpy._run_module_as_main(request.program))


def _execute(module: ModuleType, source: str | bytes, name: str) -> int:
    def compile_and_run() -> None:
        code: CodeType = compile(source, name, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    return _call(compile_and_run)


def _call(program: Callable[[], Any]) -> int:
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        for record in _reports:
            record.error = f"{type(error).__name__}: {error}"
        frames = error.__traceback__
        for _ in range(2):  # this function's own frame, and `program`'s
            frames = frames.tb_next if frames is not None else None
        _show_from(frames)
        raise
    return 0


def _show_from(traceback: TracebackType | None) -> None:
    """Let Python report the error that is on its way out, from the program's first frame on.

    Python adds a frame for each function that an error leaves: ours can only be cut at the end.
    """
    hook = sys.excepthook  # the program may have set its own

    def show(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> Any:
        return hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = show
