"""Stores: the same table in a process, in a file, and in a server."""

import threading
from datetime import timedelta

import pytest

import ember.distributed as dist

SOON = timedelta(milliseconds=30)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 1)
    if request.param == "tcp":
        return dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    if request.param == "prefix":
        return dist.PrefixStore("part", dist.HashStore())
    return dist.HashStore()


def test_values(store):
    store.set("color", "green")
    store.set("bytes", b"\x00\xff")
    assert store.get("color") == b"green"
    assert store.get("bytes") == b"\x00\xff"
    store.set("color", "")
    assert store.get("color") == b""
    with pytest.raises(TypeError, match="str or bytes"):
        store.set("color", 1)


def test_numbers(store):
    assert store.add("n", 2) == 2
    assert store.add("n", -5) == -3
    assert store.get("n") == b"-3"


def test_compare_set(store):
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.compare_set("missing", "something", "x") == b"something"
    assert not store.check(["missing"])


def test_keys(store):
    before = store.num_keys()
    store.multi_set(["a", "b"], ["1", "2"])
    store.append("a", "3")
    assert store.multi_get(["a", "b"]) == [b"13", b"2"]
    assert store.num_keys() == before + 2
    assert {"a", "b"} <= set(store.list_keys())
    assert store.check(["a", "b"])
    assert not store.check(["a", "c"])
    assert store.delete_key("a")
    assert not store.delete_key("a")
    assert not store.check(["a"])


def test_queues(store):
    store.queue_push("q", "one")
    store.queue_push("q", "two")
    assert store.queue_len("q") == 2
    assert store.queue_pop("q") == b"one"
    assert store.queue_pop("q") == b"two"
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", block=False)


def test_waiting_ends(store):
    store.set_timeout(SOON)
    assert store.timeout == SOON
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 30ms, keys: /.*a"):
        store.get("a")
    store.set("a", "1")
    with pytest.raises(dist.DistStoreError, match="keys: /.*a, /.*b"):
        store.wait(["a", "b"], SOON)


def test_waiting_is_answered(store):
    setter = threading.Timer(0.02, lambda: other.set("late", "there"))
    other = store.clone() if isinstance(store, dist.TCPStore) else store
    setter.start()
    assert store.get("late") == b"there"
    setter.join()


def test_prefix_is_a_part():
    whole = dist.HashStore()
    part = dist.PrefixStore("a", dist.PrefixStore("b", whole))
    part.set("k", "v")
    assert whole.get("b/a/k") == b"v"
    assert part.list_keys() == ["k"]
    assert part.underlying_store.underlying_store is whole


def test_processes_share_a_file(tmp_path):
    first, second = (dist.FileStore(str(tmp_path / "store"), 2) for _ in range(2))
    first.set("k", "v")
    assert second.get("k") == b"v"
    second.add("n", 1)
    assert first.add("n", 1) == 2
    assert first.path == str(tmp_path / "store")
    del first
    assert (tmp_path / "store").exists()
    del second
    assert not (tmp_path / "store").exists()


def test_processes_share_a_server():
    server = dist.TCPStore("localhost", 0, is_master=True)
    assert server.port > 0
    assert server.host == "localhost"
    client = dist.TCPStore("localhost", server.port)
    client.set("k", "v")
    assert server.get("k") == b"v"
    assert "TCPServer" in repr(server)
    assert "TCPServer" not in repr(client)
    with pytest.raises(dist.DistNetworkError, match="failed to listen on port"):
        dist.TCPStore("localhost", server.port, is_master=True)


def test_a_server_ends_with_its_store():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    port = server.port
    del server
    with pytest.raises(dist.DistNetworkError, match=f"timed out after 50ms.*127.0.0.1, {port}"):
        dist.TCPStore("127.0.0.1", port, timeout=timedelta(milliseconds=50))


def test_the_server_waits_for_workers():
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(milliseconds=50))


def test_errors_are_runtime_errors():
    for kind in (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError):
        assert issubclass(kind, dist.DistError)
        assert issubclass(kind, RuntimeError)
