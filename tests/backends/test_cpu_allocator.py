"""Memory of large arrays that is kept: in a process of its own, since it cannot be taken out."""

import os
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import numpy as np
from numpy._core.multiarray import get_handler_name
from ember.backends.cpu import allocator
allocator.install()
assert get_handler_name() == "ember"
stats = allocator.memory_stats
"""


def run(program, **environment):
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", BEGIN + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_memory_is_given_to_the_next_array_of_its_size():
    run("""
        a = np.empty(100_000, np.float32)
        assert a.ctypes.data % 64 == 0 and get_handler_name(a) == "ember"
        first, a = a.ctypes.data, None
        assert stats()["cached_bytes"] >= 400_000 and stats()["allocated_bytes"] == 0
        b = np.empty(100_001, np.float32)
        assert b.ctypes.data == first and stats()["hits"] == 1 and stats()["cached_bytes"] == 0
        c = np.empty(100_000, np.float32)
        assert c.ctypes.data != first
        in_use = stats()["allocated_bytes"]
        assert 800_000 <= in_use <= 1_310_720
        del b, c
        assert allocator.empty_cache() == in_use and allocator.empty_cache() == 0
        assert stats()["cached_bytes"] == 0 and stats()["peak_allocated_bytes"] == in_use
    """)


def test_every_size_has_room_and_keeps_apart():
    run("""
        generator = np.random.default_rng(0)
        alive = []
        sizes = [(1 << p) + d for p in range(14, 24) for d in (-65, -64, -63, -1, 0, 1, 63, 64, 65)]
        for turn in range(3):
            for size in generator.permutation(sizes):
                a = np.empty(size, np.uint8)
                a[:] = len(alive) % 251
                alive.append((a, len(alive) % 251))
                if len(alive) > 40:
                    a, value = alive.pop(int(generator.integers(40)))
                    assert (a == value).all()
        assert all((a == value).all() for a, value in alive)
        kept = stats()
        assert kept["hits"] > 20 and kept["allocated_bytes"] > 0
        alive.clear()
        del a
        assert stats()["allocated_bytes"] == 0
        assert stats()["cached_bytes"] <= 256 << 20
    """)


def test_zeros_are_zeros_and_resized_arrays_keep_their_values():
    run("""
        for count in (10_000, 200_000, 3_000_000, 9_000_000):
            a = np.empty(count)
            a[:] = 7
            del a
            z = np.zeros(count)
            assert not z.any()
            z[:] = 3
            del z
        a = np.arange(20_000.0)
        a.resize(300_000)
        assert (a[:20_000] == np.arange(20_000.0)).all() and not a[20_000:].any()
        a.resize(30_000)
        assert (a[:20_000] == np.arange(20_000.0)).all()
        a.resize(10)
        assert (a == np.arange(10.0)).all()
        assert np.fromiter(range(100_000), np.int64).sum() == 4999950000
    """)


def test_no_more_is_kept_than_the_limit():
    run(
        """
        arrays = [np.empty(1 << 20, np.uint8) for _ in range(20)]
        arrays.clear()
        assert 0 < stats()["cached_bytes"] <= 8 << 20
        large = np.empty(9 << 20, np.uint8)
        del large
        assert stats()["cached_bytes"] <= 8 << 20
        """,
        EMBER_HOST_CACHE_MIB="8",
    )


def test_too_much_memory_is_an_error_after_which_all_goes_on():
    run("""
        for dtype in (np.uint8, np.float64):
            try:
                np.empty(1 << 60 >> (3 if dtype is np.float64 else 0), dtype)
                raise SystemExit("it was given")
            except MemoryError:
                pass
        kept = np.empty(1 << 20, np.uint8)
        del kept
        assert stats()["cached_bytes"] > 0
        assert np.ones(1 << 20).sum() == 1 << 20
    """)


def test_threads_take_and_give_at_the_same_time():
    run("""
        import sys, threading
        sys.setswitchinterval(1e-5)
        failures = []

        def hammer(seed):
            allocator.install()
            generator = np.random.default_rng(seed)
            alive = []
            for turn in range(1500):
                size = int(generator.integers(60_000, 400_000))
                a = np.full(size, seed, np.uint8)
                alive.append(a)
                if len(alive) > 5:
                    if not (alive.pop(int(generator.integers(5))) == seed).all():
                        failures.append(seed)
        threads = [threading.Thread(target=hammer, args=(i,)) for i in range(1, 7)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures
        assert stats()["allocated_bytes"] == 0, stats()
    """)


def test_a_child_goes_on_with_its_own():
    assert run("""
        import os, threading
        stop = threading.Event()

        def work():
            allocator.install()
            while not stop.is_set():
                np.empty(100_000).fill(1)

        thread = threading.Thread(target=work)
        thread.start()
        for turn in range(20):
            child = os.fork()
            if not child:
                good = all((np.full(90_000, i) == i).all() for i in range(50))
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        print("all")
    """).split() == ["all"]


@pytest.mark.parametrize("program", ["", "keep = [np.empty(1 << 20) for _ in range(5)]"])
def test_a_process_may_end_with_arrays_alive(program):
    run(program + "\nimport sys\nsys.keep = np.empty(1 << 20)\nnp.keep = np.empty(1 << 21)")


def test_it_can_be_turned_off_and_leaves_others_functions_alone():
    off = """
        import ember as torch
        x = torch.ones(1 << 20)
        (x * 2 + 1).exp()
        from numpy._core.multiarray import get_handler_name
        print(get_handler_name())
    """
    environment = {**os.environ, "EMBER_HOST_CACHE_MIB": "0"}
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(off)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert found.stdout.split() == ["default_allocator"]


def test_the_first_large_result_installs_it():
    program = """
        import ember as torch
        from numpy._core.multiarray import get_handler_name
        x = torch.ones(100)
        x + x
        print(get_handler_name())
        x = torch.ones(1 << 20)
        y = x + x
        print(get_handler_name())
        assert (y == 2).all()
        assert torch.backends.cpu.memory_stats()["misses"] > 0
        del x, y
        assert torch.backends.cpu.empty_cache() > 0
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["default_allocator", "ember"]
