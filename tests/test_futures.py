"""Values that are still to come."""

import threading

import pytest

from ember.futures import Future, collect_all, wait_all


def test_a_value_comes():
    future = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    threading.Timer(0.01, future.set_result, (3,)).start()
    assert future.wait() == 3
    assert future.done()
    assert future.value() == 3
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(4)


def test_callbacks():
    future, seen = Future(), []
    doubled = future.then(lambda done: done.value() * 2)
    future.add_done_callback(lambda done: seen.append(done.value()))
    future.set_result(4)
    assert doubled.wait() == 8
    assert seen == [4]
    assert future.then(lambda done: 1).value() == 1


def test_errors():
    future = Future()
    after = future.then(lambda done: done.value())
    with pytest.raises(AssertionError, match="not an Exception"):
        future.set_exception("text")
    future.set_exception(ValueError("no"))
    for each in (future, after):
        with pytest.raises(ValueError, match="no"):
            each.wait()


def test_several():
    first, second = Future(), Future()
    both = collect_all([first, second])
    second.set_result(2)
    assert not both.done()
    first.set_result(1)
    assert [future.value() for future in both.wait()] == [1, 2]
    assert wait_all([first, second]) == [1, 2]
    assert collect_all([]).wait() == []
    failed = Future()
    failed.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        wait_all([first, failed])
