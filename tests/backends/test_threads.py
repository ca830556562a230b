"""The pool of threads of the kernels."""

import threading

import pytest

from ember.backends.cpu import threads


@pytest.fixture
def two_threads():
    before = threads.count()
    threads.set_count(2)
    yield
    threads.set_count(before)


def test_pieces_of_pieces_stay_in_their_thread(two_threads):
    seen, meeting = [], threading.Barrier(2, timeout=20)

    def inner(begin, end):
        seen.append((begin, end))

    def outer(begin, end):
        meeting.wait()  # both threads are at work: neither may wait for the other
        threads.split(inner, 10, 1)

    threads.split(outer, 2, 1)
    assert seen == [(0, 10), (0, 10)]
    threads.split(inner, 10, 1)
    assert sorted(seen[2:]) == [(0, 5), (5, 10)]


def test_what_a_piece_raises_is_raised(two_threads):
    def part(begin, end):
        if begin:
            raise ValueError("the second piece")

    for _ in range(2):
        with pytest.raises(ValueError, match="the second piece"):
            threads.split(part, 2, 1)
