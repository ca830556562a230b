"""How the processes of a run find each other: a URL becomes a store, a rank and a world size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse, urlunparse

from ember.distributed.stores import DEFAULT_TIMEOUT, FileStore, PrefixStore, Store
from ember.distributed.tcp_store import TCPStore
from ember.errors import check

Found = tuple[Store, int, int]
_handlers: dict[str, Callable[..., Iterator[Found]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Found]]) -> None:
    """Let `handler(url, timeout=...)` answer URLs that begin with `scheme://`.

    It yields (store, rank, world size). RuntimeError for a scheme that is taken.
    """
    check(
        scheme not in _handlers,
        RuntimeError,
        f"Rendezvous handler for {scheme}:// already registered",
    )
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Found]:
    """The (store, rank, world size) of a URL: env://, tcp://host:port or file:///path.

    Rank and world size may stand in the URL: tcp://host:port?rank=0&world_size=2.
    """
    check(
        isinstance(url, str | bytes),
        RuntimeError,
        f"`url` must be a string. {type(url)}: {url}",
    )
    parts = urlparse(url if isinstance(url, str) else url.decode())
    check(parts.scheme in _handlers, RuntimeError, f"No rendezvous handler for {parts.scheme}://")
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value is not None and value != -1:
            check(
                name not in query,
                RuntimeError,
                f"The url: {url} has node-specific arguments(rank, world_size) already.",
            )
            query[name] = str(value)
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return _handlers[parts.scheme](urlunparse(parts._replace(query=text)), **kwargs)


def _query(url: str) -> tuple[Any, dict[str, str]]:
    parts = urlparse(url)
    return parts, {name: values[-1] for name, values in parse_qs(parts.query).items()}


def _needed(query: dict[str, str], name: str, url: str, scheme: str) -> int:
    check(
        name in query,
        ValueError,
        f"Error initializing torch.distributed using {scheme}:// rendezvous: "
        f"{name.replace('_', ' ')} parameter missing",
    )
    return int(query[name])


def _by_tcp(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **_: Any) -> Iterator[Found]:
    parts, query = _query(url)
    check(
        parts.port is not None,
        ValueError,
        "Error initializing torch.distributed using tcp:// rendezvous: port number missing",
    )
    rank = _needed(query, "rank", url, "tcp")
    world_size = _needed(query, "world_size", url, "tcp")
    yield _server_store(parts.hostname, parts.port, rank, world_size, timeout), rank, world_size


def _by_file(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **_: Any) -> Iterator[Found]:
    parts, query = _query(url)
    check(
        parts.path,
        ValueError,
        "Error initializing torch.distributed using file:// rendezvous: path missing",
    )
    rank = _needed(query, "rank", url, "file")
    world_size = _needed(query, "world_size", url, "file")
    store = FileStore(parts.path, world_size)
    store.set_timeout(timeout)
    yield store, rank, world_size


def _of_environment(name: str) -> str:
    value = os.environ.get(name)
    check(
        value is not None,
        ValueError,
        "Error initializing torch.distributed using env:// rendezvous: environment variable "
        f"{name} expected, but not set. `python -m torch.distributed.run` sets it; or give "
        "init_method, rank and world_size",
    )
    assert value is not None
    return value


def _by_environment(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **_: Any) -> Iterator[Found]:
    _, query = _query(url)
    rank = int(query.get("rank") or _of_environment("RANK"))
    world_size = int(query.get("world_size") or _of_environment("WORLD_SIZE"))
    host, port = _of_environment("MASTER_ADDR"), int(_of_environment("MASTER_PORT"))
    yield _server_store(host, port, rank, world_size, timeout), rank, world_size


def _server_store(host: Any, port: Any, rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store of a run: rank 0 holds it, or the launcher where it says so."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(
            f"worker/attempt_{attempt}", TCPStore(host, port, world_size, False, timeout)
        )
    return TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)


register_rendezvous_handler("tcp", _by_tcp)
register_rendezvous_handler("file", _by_file)
register_rendezvous_handler("env", _by_environment)
