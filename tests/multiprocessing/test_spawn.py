"""Functions in several processes, whose errors are raised in this one; programs under the alias."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import pytest

import ember.multiprocessing as mp
from ember.multiprocessing.spawn import ProcessContext, ProcessException


def write(index, folder):
    with open(os.path.join(folder, str(index)), "w") as file:
        file.write("was here")


def fail(index):
    if index == 1:
        raise ValueError("what went wrong")
    signal.pause()  # until it is terminated


def leave(index):
    os._exit(3)


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def start(work, count, *arguments, **options):
    return mp.start_processes(work, arguments, count, start_method="fork", **options)


@pytest.fixture(autouse=True)
def _forks(recwarn):
    """Forks beside threads warn from Python 3.12 on."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_all_are_called(tmp_path):
    assert start(write, 3, str(tmp_path)) is None
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


def test_without_waiting(tmp_path):
    context = start(write, 2, str(tmp_path), join=False)
    assert isinstance(context, ProcessContext)
    assert len(context.pids()) == 2
    while not context.join():
        pass
    assert context.join()
    assert len(os.listdir(tmp_path)) == 2


def test_an_error_is_raised_here():
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: what went wrong") as caught:
        start(fail, 2)
    assert str(caught.value).startswith(
        "\n\n-- Process 1 terminated with the following error:\nTraceback"
    )
    assert caught.value.error_index == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.msg, again.pid) == (caught.value.msg, caught.value.pid)


@pytest.mark.parametrize(
    ("work", "message", "code", "name"),
    [
        (leave, "process 0 terminated with exit code 3", 3, None),
        (die, "process 0 terminated with signal SIGKILL", -9, "SIGKILL"),
    ],
)
def test_other_ends(work, message, code, name):
    with pytest.raises(mp.ProcessExitedException, match=message) as caught:
        start(work, 1)
    assert (caught.value.exit_code, caught.value.signal_name) == (code, name)
    assert issubclass(mp.ProcessExitedException, ProcessException)
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == code


def test_waiting_for_a_time():
    context = start(fail, 1, join=False)  # process 0 waits
    assert context.join(timeout=0.01) is False
    context.processes[0].terminate()
    with pytest.raises(mp.ProcessExitedException, match="signal SIGTERM"):
        context.join()


PROGRAM = """
    import torch, torch.multiprocessing as mp
    from torch.utils.data import DataLoader, TensorDataset

    def work(index, shared, queue):
        shared[index] += index + 1
        queue.put((torch.__file__, torch.full((2,), index)))
        if torch.cuda.is_available():
            shared.cuda()

    if __name__ == "__main__":
        shared = torch.zeros(2).share_memory_()
        queue = mp.get_context("spawn").SimpleQueue()
        context = mp.spawn(work, (shared, queue), nprocs=2, join=False)
        got = [queue.get() for _ in range(2)]
        while not context.join():
            pass
        print(shared.tolist(), {path for path, _ in got} == {torch.__file__})
        print(sorted(tensor.tolist() for _, tensor in got))
        loader = DataLoader(
            TensorDataset(torch.ones(8, 2)), 2, num_workers=1, multiprocessing_context="spawn"
        )
        print(sum(batch.sum().item() for batch, in loader))
"""


def test_programs_under_the_alias(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", "--gpus", "1", str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["[1.0, 2.0] True", "[[0, 0], [1, 1]]", "16.0"], done.stderr


PYTHONS_OWN = """
    import multiprocessing, torch

    def work(tensor):
        tensor.add_(1)

    if __name__ == "__main__":
        x = torch.zeros(2).share_memory_()
        process = multiprocessing.get_context("spawn").Process(target=work, args=(x,))
        process.start()
        process.join()
        print(x.tolist())
"""


def test_pythons_own_module_shares_too(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PYTHONS_OWN))
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1.0, 1.0]\n", done.stderr


GPUS = """
    import os, torch, torch.multiprocessing as mp

    def add(tensor, queue):
        tensor.add_(1)
        queue.put(torch.cuda.memory_allocated())

    def fails():
        try:
            torch.ones(1).cuda()
        except RuntimeError as error:
            print(error, flush=True)

    def works():
        print(torch.ones(1).cuda().item(), flush=True)

    if __name__ == "__main__":
        if torch.cuda.is_available():
            process = mp.get_context("fork").Process(target=works)
            process.start()
            process.join()
        x = torch.zeros(3, device="cuda:1")
        context = mp.get_context("spawn")
        queue = context.SimpleQueue()
        process = context.Process(target=add, args=(x, queue))
        process.start()
        print(queue.get(), flush=True)
        process.join()
        print(x, flush=True)
        process = mp.get_context("fork").Process(target=fails)
        process.start()
        process.join()
"""


def test_gpus(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(GPUS))
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", "--gpus", "2", str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
    )
    before, first, second, third = done.stdout.splitlines()
    assert before == "1.0", done.stderr  # a fork before the first use
    assert first == "0"  # the memory is its maker's
    assert second == "tensor([1., 1., 1.], device='cuda:1')"
    assert third.startswith("Cannot re-initialize CUDA in forked subprocess.")


def test_start_methods_other_than_spawn_warn(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: None)
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(write, nprocs=0, join=False, start_method="fork")
