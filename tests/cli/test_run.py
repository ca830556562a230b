"""`ember run` does what `python` does: arguments, paths, exit codes and tracebacks."""

import os
import subprocess
import sys

import pytest

from ember.version import ember_version


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "import torch, ember\n"
        "assert torch is ember\n"
        "print(sys.argv, __name__, __file__, sys.path[0])\n"
        "def fail():\n"
        "    raise LookupError('planned')\n"
        "what = sys.argv[1] if len(sys.argv) > 1 else ''\n"
        "if what == 'exit': sys.exit(int(sys.argv[2]))\n"
        "if what == 'text': sys.exit('a last word')\n"
        "if what == 'fail': fail()\n"
        "if what == 'hook': sys.excepthook = lambda *e: print('hooked', e[0].__name__); fail()\n"
    )
    package = tmp_path / "program"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import sys, torch\nprint(sys.argv[1:], sys.path[0], __spec__.name)\n"
    )
    return tmp_path


def ember(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "ember", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_script_sees_what_python_gives(folder):
    done = ember(folder, "run", "script.py", "a", "--gpus", "7")
    assert done.returncode == 0, done.stderr
    script = folder / "script.py"
    assert done.stdout == f"{['script.py', 'a', '--gpus', '7']} __main__ {script} {folder}\n"


def test_exit_codes(folder):
    assert ember(folder, "run", "script.py", "exit", "3").returncode == 3
    done = ember(folder, "run", "script.py", "text")
    assert (done.returncode, done.stderr) == (1, "a last word\n")


def test_traceback_starts_in_the_program(folder):
    done = ember(folder, "run", "script.py", "fail")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{folder / "script.py"}", line 10, in <module>'
    assert lines[-1] == "LookupError: planned"
    assert "cli" not in done.stderr and "runpy" not in done.stderr


def test_the_programs_own_excepthook_is_called(folder):
    done = ember(folder, "run", "script.py", "hook")
    assert done.returncode == 1 and done.stdout.endswith("hooked LookupError\n")


def test_syntax_error_shows_only_itself(folder):
    (folder / "bad.py").write_text("x = (\n")
    done = ember(folder, "run", "bad.py")
    assert done.returncode == 1
    assert done.stderr.startswith(f'  File "{folder / "bad.py"}", line 1')


def test_code_and_module(folder):
    done = ember(folder, "run", "-c", "import sys; print(sys.argv, repr(sys.path[0]))", "-x")
    assert done.stdout == "['-c', '-x'] ''\n", done.stderr
    done = ember(folder, "run", "-m", "program", "b")
    assert done.stdout == f"['b'] {folder} program.__main__\n", done.stderr


def test_wrong_command_lines(folder):
    for arguments, text in [
        (["run"], "no program to run"),
        (["run", "--nope", "script.py"], "there is no option --nope"),
        (["run", "--gpus"], "something must follow --gpus"),
        (["run", "--gpus", "many", "script.py"], "many"),
        (["run", "not_there.py"], "can't open file"),
        (["jump"], "there is no command 'jump'"),
        (["info", "--fast"], "cannot read --fast"),
    ]:
        done = ember(folder, *arguments)
        assert done.returncode == 2 and text in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_help_and_version(folder):
    assert "usage: ember" in ember(folder, "--help").stdout
    assert "--gpus" in ember(folder, "run", "--help").stdout
    assert ember(folder, "--version").stdout.startswith("ember 0.")


COUNT = "import torch; print(torch.cuda.device_count())"


def test_simulated_gpus_reach_subprocesses(folder):
    assert ember(folder, "run", "--gpus=2x1GiB", "-c", COUNT).stdout == "2\n"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COUNT!r}])"
    assert ember(folder, "run", "--gpus", "3", "-c", nested).stdout == "3\n"
    again = nested.replace("'-c'", "'-m', 'ember', 'run', '-c'")
    assert ember(folder, "run", "--gpus", "3", "-c", again).stdout == "3\n"
    assert ember(folder, "run", "-c", COUNT, EMBER_SIMULATE_GPUS="2").stdout == "2\n"
    assert ember(folder, "run", "--gpus", "0", "-c", COUNT, EMBER_SIMULATE_GPUS="2").stdout == "0\n"


def test_spawned_workers_find_torch(folder):
    (folder / "workers.py").write_text(
        "import multiprocessing, torch\n"
        "def work(n): print('worker', torch.ones(n).sum().item(), torch.ember_version)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work, args=(3,))\n"
        "    process.start(); process.join(); print(process.exitcode)\n"
    )
    done = ember(folder, "run", "workers.py")
    assert done.stdout == f"worker 3.0 {ember_version}\n0\n", done.stderr


def test_ledger_is_printed_at_exit(folder):
    (folder / "copies.py").write_text(
        "import torch\nx = torch.ones(256)\ny = x.cuda()\nz = y.cpu()\nprint('done')\n"
    )
    done = ember(folder, "run", "--gpus", "1", "--ledger", "copies.py")
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
    assert "Copies between devices" in done.stderr
    assert "copies.py:3" in done.stderr and "1.0 KiB" in done.stderr


def test_run_starts_without_what_it_does_not_need(folder):
    code = (
        "import sys; "
        "print(sorted({'argparse', 'rich', 'llvmlite', 'scipy', 'runpy'} & set(sys.modules)))"
    )
    assert ember(folder, "run", "-c", code).stdout == "['runpy']\n"  # python -m loads runpy


def test_info(folder):
    import json

    done = ember(folder, "info", "--json", EMBER_SIMULATE_GPUS="2x4GiB")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["packages"]["numpy"]
    assert [device["device"] for device in found["devices"]] == ["cpu", "cuda:0", "cuda:1"]
    assert found["devices"][1]["total_memory"] == 4 * 2**30
    assert found["devices"][1]["kind"] == "simulated"
    table = ember(folder, "info", EMBER_SIMULATE_GPUS="2x4GiB").stdout
    assert "cuda:1" in table and "4.0 GiB" in table
