"""The launcher: the processes of a script on one machine, or this machine's share of them.

    python -m ember.distributed.run --nproc-per-node 4 train.py --lr 0.1
    ember run --gpus 4 -m torch.distributed.run --nproc-per-node gpu train.py

Each process finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in its environment. The
launcher holds the store that they find each other through. When one process fails the others are
stopped, and started again if --max-restarts allows it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ember.cuda.devices import device_count
from ember.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from ember.distributed.errors import DistNetworkError
from ember.distributed.tcp_store import LOCAL, TCPStore
from ember.errors import check

DEFAULT_PORT = 29500
STOP_SECONDS = 30.0
ROOT = Path(__file__).resolve().parents[2]


class _Option(argparse.Action):
    """An option whose default may stand in the environment: PET_NNODES for --nnodes."""

    def __init__(self, option_strings: Any, dest: str, default: Any = None, **kwargs: Any):
        given = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(option_strings, dest, default=given, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, values)


def get_args_parser() -> argparse.ArgumentParser:
    """The options of the launcher."""
    parser = argparse.ArgumentParser(
        prog="python -m torch.distributed.run",
        description="Start the processes of a script, and watch over them.",
    )

    def add(name: str, default: Any, text: str, **kwargs: Any) -> None:
        names = [f"--{name}", *([f"--{name.replace('-', '_')}"] if "-" in name else [])]
        parser.add_argument(*names, action=_Option, default=default, help=text, **kwargs)

    add("nnodes", "1", "machines, as N or MIN:MAX (MAX counts)")
    add("nproc-per-node", "1", "processes on this machine: a number, cpu, gpu or auto")
    add("rdzv-backend", "static", "static, or c10d: machines number themselves as they come")
    add("rdzv-endpoint", "", "host:port where machines meet")
    add("rdzv-id", "none", "the name of the run")
    add("rdzv-conf", "", "timeout=SECONDS")
    add("max-restarts", 0, "how often processes are started again", type=int)
    add("monitor-interval", 0.1, "seconds between looks at the processes", type=float)
    add("start-method", "spawn", "taken for compatibility: processes are programs")
    add("role", "default", "a name for the processes")
    add("log-dir", None, "the folder for --redirects")
    add("node-rank", 0, "the number of this machine", type=int)
    add("master-addr", "127.0.0.1", "the first machine")
    add("master-port", None, "a port there (29500; on one machine, a free one)", type=int)
    add("local-addr", None, "the name of this machine for the others")
    parser.add_argument(
        "-r", "--redirects", default="0", help="1: stdout, 2: stderr, 3: both to files"
    )
    parser.add_argument("--standalone", action="store_true", help="one machine, on a free port")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument(
        "--no-python", "--no_python", action="store_true", help="not a Python program"
    )
    parser.add_argument("--run-path", "--run_path", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("training_script", help="the program; what follows are its arguments")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options on a command line."""
    return get_args_parser().parse_args(args)


def process_count(wanted: str) -> int:
    """The number of processes that --nproc-per-node means. ValueError for what it is not."""
    kind = str(wanted).strip()
    if kind.isdigit() and int(kind) > 0:
        return int(kind)
    check(kind in ("cpu", "gpu", "auto"), ValueError, f"Unsupported nproc_per_node value: {wanted}")
    count = device_count() if kind in ("gpu", "auto") else 0
    check(kind != "gpu" or count, ValueError, "Cuda is not available: there are no GPUs.")
    return count or os.cpu_count() or 1


class _Place(NamedTuple):
    """This machine's part in the run."""

    store: TCPStore
    address: str
    node: int
    nodes: int
    first_rank: int
    world_size: int


def _meet(args: argparse.Namespace, count: int) -> _Place:
    """Find the other machines, or hold the store for this one."""
    nodes = int(str(args.nnodes).rpartition(":")[2])
    timeout = timedelta(seconds=float(_settings(args.rdzv_conf).get("timeout", 900)))
    if args.standalone or (nodes == 1 and not args.rdzv_endpoint):
        store = TCPStore("127.0.0.1", 0 if args.standalone else args.master_port or 0, None, True)
        return _Place(store, "127.0.0.1", 0, 1, 0, count)
    host, port = args.master_addr, args.master_port or DEFAULT_PORT
    if args.rdzv_endpoint:
        host, _, number = args.rdzv_endpoint.rpartition(":")
        host, port = host or number, int(number) if host else DEFAULT_PORT
    if args.rdzv_backend == "static":
        node = args.node_rank
        store = TCPStore(host, port, None, node == 0, timeout)
    else:
        store = _first_or_next(host, port, timeout)
        node = store.add(f"{args.rdzv_id}/nodes", 1) - 1
    store.set(f"{args.rdzv_id}/count/{node}", str(count))
    names = [f"{args.rdzv_id}/count/{other}" for other in range(nodes)]
    store.wait(names, timeout)
    counts = [int(store.get(name)) for name in names]
    return _Place(store, host, node, nodes, sum(counts[:node]), sum(counts))


def _settings(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _first_or_next(host: str, port: int, timeout: timedelta) -> TCPStore:
    """The store at an address: its server starts here if the address is ours and still free."""
    if host in LOCAL or host in (socket.gethostname(), socket.getfqdn()):
        with contextlib.suppress(DistNetworkError):
            return TCPStore(host, port, None, True, timeout)
    return TCPStore(host, port, None, False, timeout)


def _command(args: argparse.Namespace, local: int) -> list[str]:
    program = [args.training_script, *args.training_script_args]
    if getattr(args, "local_rank_argument", False):  # torch.distributed.launch
        program.insert(1, f"--local-rank={local}")
    if args.no_python:
        return program
    module = ["-m"] if args.module else []
    return [sys.executable, "-u", "-m", "ember", "run", *module, *program]


def _environment(
    args: argparse.Namespace, place: _Place, local: int, count: int, attempt: int
) -> dict[str, str]:
    rank = place.first_rank + local
    found = dict(os.environ)
    found.update(
        LOCAL_RANK=str(local),
        RANK=str(rank),
        GROUP_RANK=str(place.node),
        ROLE_RANK=str(rank),
        ROLE_NAME=args.role,
        LOCAL_WORLD_SIZE=str(count),
        WORLD_SIZE=str(place.world_size),
        GROUP_WORLD_SIZE=str(place.nodes),
        ROLE_WORLD_SIZE=str(place.world_size),
        MASTER_ADDR=place.address,
        MASTER_PORT=str(place.store.port),
        TORCHELASTIC_RESTART_COUNT=str(attempt),
        TORCHELASTIC_MAX_RESTARTS=str(args.max_restarts),
        TORCHELASTIC_RUN_ID=args.rdzv_id if args.rdzv_id != "none" else uuid.uuid4().hex,
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    if count > 1:
        found.setdefault("OMP_NUM_THREADS", "1")
    if ROOT.name != "site-packages":  # a checkout: the processes must find it from any folder
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (found.get("PYTHONPATH"), str(ROOT))))
    return found


class _Processes:
    """The processes of one attempt."""

    def __init__(
        self, args: argparse.Namespace, place: _Place, count: int, attempt: int, folder: str
    ):
        self.place, self.running, self.errors = place, {}, {}
        for local in range(count):
            environment = _environment(args, place, local, count, attempt)
            error = self.errors[local] = os.path.join(folder, f"error-{attempt}-{local}.json")
            environment["TORCHELASTIC_ERROR_FILE"] = error
            with _streams(args, attempt, local) as (out, err):
                self.running[local] = subprocess.Popen(
                    _command(args, local), env=environment, stdout=out, stderr=err
                )

    def wait(self, interval: float) -> dict[int, ProcessFailure]:
        """Wait until all have ended, or one has failed: the failures by rank."""
        while True:
            states = {local: process.poll() for local, process in self.running.items()}
            failed = {
                self.place.first_rank + local: ProcessFailure(
                    local, self.running[local].pid, code, self.errors[local]
                )
                for local, code in states.items()
                if code
            }
            if failed or all(code == 0 for code in states.values()):
                return failed
            time.sleep(interval)

    def stop(self) -> None:
        """End those that still run."""
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self.running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _streams(args: argparse.Namespace, attempt: int, local: int) -> Iterator[tuple[Any, Any]]:
    """Where a process writes: what the launcher does, or files in --log-dir."""
    which = dict(part.split(":") for part in args.redirects.split(",") if ":" in part)
    mode = int(which.get(str(local), args.redirects if ":" not in args.redirects else 0))
    with contextlib.ExitStack() as stack:
        found = []
        for bit, name in ((1, "stdout.log"), (2, "stderr.log")):
            if mode & bit:
                folder = Path(
                    args.log_dir or tempfile.gettempdir(), f"attempt_{attempt}", str(local)
                )
                folder.mkdir(parents=True, exist_ok=True)
                found.append(stack.enter_context(open(folder / name, "wb")))
            else:
                found.append(None)
        yield found[0], found[1]


def run(args: argparse.Namespace) -> None:
    """Start the processes and wait for them; ChildFailedError when one fails for good."""
    count = process_count(args.nproc_per_node)
    place = _meet(args, count)
    restarts = args.max_restarts if place.nodes == 1 else 0
    with tempfile.TemporaryDirectory() as folder, _signals_end_the_run():
        for attempt in range(restarts + 1):
            processes = _Processes(args, place, count, attempt, folder)
            try:
                failed = processes.wait(args.monitor_interval)
            finally:
                processes.stop()
            if not failed:
                return
        raise ChildFailedError(os.path.basename(args.training_script), failed)


@contextlib.contextmanager
def _signals_end_the_run() -> Iterator[None]:
    """Let SIGTERM end the launcher by an exception, so that it stops its processes."""

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(args: Sequence[str] | None = None) -> None:
    """The launcher as a program."""
    run(parse_args(args))


if __name__ == "__main__":
    try:
        main()
    except ChildFailedError as error:
        sys.exit(f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: {error}")
