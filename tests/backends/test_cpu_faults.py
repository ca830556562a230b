"""What happens around kernels: forks and interrupts while threads work, processes that fill one
cache."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import ember as torch
from ember.backends.cpu import threads


def start(code, **settings):
    """A process that runs a program."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process):
    """What it prints, once it has ended well."""
    try:
        out, error = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, error
    return out.split()


@pytest.fixture
def two_threads():
    before = threads.count()
    threads.set_count(2)
    yield
    threads.set_count(before)


FILLING = """
import ember as torch
x = torch.arange(100_003, dtype=torch.float32) / 100_003
for function in (torch.nn.functional.gelu, torch.sigmoid, torch.sinh):
    print(float(function(x)[-1]))
print(float(torch.softmax(x, 0).sum()))
"""


def test_two_processes_fill_one_cache(tmp_path):
    both = [start(FILLING, EMBER_CACHE=str(tmp_path)) for _ in range(2)]
    first, second = (list(map(float, printed(p))) for p in both)
    assert first == second
    np.testing.assert_allclose(first, [0.841334, 0.731056, 1.175186, 1.0], rtol=2e-5)
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert files and not [f for f in files if f.suffix == ".tmp"]
    assert list(map(float, printed(start(FILLING, EMBER_CACHE=str(tmp_path))))) == first


FORKING = """
import os, threading
import ember as torch
torch.set_num_threads(2)
x = torch.ones(300_000)
done = threading.Event()

def work():
    while not done.is_set():
        torch.exp(x)

worker = threading.Thread(target=work)
worker.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        good = float(torch.tanh(x * 2 - 2).sum()) == 0.0 and (torch.exp(x) > 2.7).all().item()
        os._exit(0 if good else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
worker.join()
print(float((x + x).sum()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_children_forked_while_threads_work_compute():
    assert printed(start(FORKING)) == ["0"] * 5 + ["600000.0"]


FIRST = """
import os, signal, threading, time
from importlib.machinery import SourceFileLoader
import ember as torch
from ember.backends.cpu import native

x = torch.ones(300_000)
begun = threading.Event()

def wait_at(name):  # in the thread's first kernel, while the main thread forks
    if name == "{}" and threading.current_thread() is worker and not begun.is_set():
        begun.set()
        time.sleep(0.3)

execute = SourceFileLoader.exec_module
def slowly(self, module):
    wait_at(module.__name__)
    execute(self, module)

compile = native._compiled
def compiled(text, names):
    wait_at("the compiler")
    return compile(text, names)

SourceFileLoader.exec_module, native._compiled = slowly, compiled
worker = threading.Thread(target=lambda: found.append(float(torch.sigmoid(x)[0]) > 0.7))
found = []
worker.start()
assert begun.wait(10)
child = os.fork()
if child == 0:
    signal.alarm(5)
    os._exit(0 if float(torch.sigmoid(x)[0]) > 0.7 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
worker.join()
print(*found)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("slow", ["ember.backends.cpu.compiled", "llvmlite", "the compiler"])
def test_children_forked_during_a_first_kernel_compute(slow):
    assert printed(start(FIRST.replace("{}", slow))) == ["0", "True"]


def test_an_interrupt_ends_a_kernel_and_nothing_else(two_threads):
    x = torch.linspace(-1, 1, 1_000_001)
    expected = np.tanh(np.linspace(-1, 1, 1_000_001))
    running = threading.Event()

    def interrupt():
        running.wait()
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):  # Python's main thread gets it after the kernel
        while True:
            torch.tanh(x)
            running.set()
    thread.join()
    np.testing.assert_allclose(torch.tanh(x).numpy(), expected, rtol=0, atol=1e-6)
