"""The launcher."""

import socket
import subprocess
import sys
import textwrap

import pytest

from ember.distributed import run as launcher
from ember.distributed.elastic.multiprocessing.errors import ChildFailedError, record

REDUCE = """
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group()
    x = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    with open(f"{sys.argv[1]}/{dist.get_rank()}", "w") as file:
        file.write(f"{dist.get_world_size()} {os.environ['LOCAL_RANK']} {x.item()} {sys.argv[2:]}")
    dist.destroy_process_group()
"""
FAIL_ONCE = """
    import os, sys
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(7)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        import time
        time.sleep(100)  # is ended by the launcher
    open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").close()
"""
RECORDED = """
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        raise ValueError("what went wrong")

    main()
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.mark.parametrize("options", [["--rdzv-id", "x"], ["--standalone"]])
def test_processes_find_each_other(script, tmp_path, options):
    launcher.main([*options, "--nproc_per_node", "2", script(REDUCE), str(tmp_path), "--lr", "1"])
    for rank in "01":
        assert (tmp_path / rank).read_text() == f"2 {rank} 3.0 ['--lr', '1']"


def test_under_the_alias(script, tmp_path):
    command = ["-m", "ember", "run", "-m", "torch.distributed.run", "--nproc-per-node", "1"]
    command = [sys.executable, *command, script(REDUCE), str(tmp_path)]
    subprocess.run(command, check=True)
    assert (tmp_path / "0").read_text() == "1 0 1.0 []"


def test_machines_meet(script, tmp_path):
    path = script(REDUCE)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "ember.distributed.run", *options, path, str(tmp_path)]
    with subprocess.Popen(command) as other:
        launcher.main([*options, "--nproc-per-node", "2", path, str(tmp_path)])
        assert other.wait() == 0
    assert sorted((tmp_path / rank).read_text().split()[2] for rank in "012") == ["6.0"] * 3


def test_failures(script, tmp_path):
    path = script(FAIL_ONCE)
    with pytest.raises(ChildFailedError, match=r"script.py FAILED") as caught:
        launcher.main(["--nproc-per-node", "2", path, str(tmp_path)])
    rank, failure = caught.value.get_first_failure()
    assert (rank, failure.exitcode, failure.local_rank) == (1, 7, 1)
    assert failure.signal_name() == "<N/A>"
    launcher.main(["--nproc-per-node", "2", "--max-restarts", "1", path, str(tmp_path)])
    assert (tmp_path / "0").exists()
    assert (tmp_path / "1").exists()


def test_recorded_errors_are_in_the_report(script, tmp_path):
    options = ["--redirects", "2", "--log-dir", str(tmp_path)]
    with pytest.raises(ChildFailedError, match="ValueError: what went wrong"):
        launcher.main([*options, script(RECORDED)])
    assert "what went wrong" in (tmp_path / "attempt_0" / "0" / "stderr.log").read_text()


def test_record_passes_results_and_errors():
    assert record(lambda x: x + 1)(1) == 2
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0)()


def test_process_counts(monkeypatch, no_gpus):
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert launcher.process_count("3") == 3
    assert launcher.process_count("cpu") == launcher.process_count("auto") == 6
    with pytest.raises(ValueError, match="no GPUs"):
        launcher.process_count("gpu")
    with pytest.raises(ValueError, match="Unsupported nproc_per_node value: many"):
        launcher.process_count("many")


def test_options_from_the_environment(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "4")
    assert launcher.parse_args(["x.py", "--a"]).nproc_per_node == "4"
    assert launcher.parse_args(["--nproc-per-node=2", "x.py"]).nproc_per_node == "2"
    assert launcher.parse_args(["x.py", "--a"]).training_script_args == ["--a"]
