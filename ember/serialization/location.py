"""Where storages come from and go to: the tags in files, and `map_location`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends import base
from ember.core.storages import UntypedStorage
from ember.device import device as Device
from ember.errors import check

Tagger = Callable[[Any], str | None]
Restorer = Callable[[Any, str], Any]
MAP_LOCATION = Restorer | Device | str | dict[str, str] | None
_packages: list[tuple[int, Tagger, Restorer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Let `tagger(storage)` name the place of a storage in files, and `deserializer(storage, tag)`
    put it back; the lowest priority is asked first, before the built-in places. Both give None for
    what is not theirs."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's place in files: "cpu", "cuda:0" ..."""
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag is not None:
            return tag
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at the place that a tag names. RuntimeError if there is no such place.

    >>> import ember as torch
    >>> storage = torch.UntypedStorage([1, 2])
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, restorer in _packages:
        found = restorer(storage, location)
        if found is not None:
            return found
    if location == "cpu":
        return storage
    kind = location.partition(":")[0]
    if kind == "cuda":
        return storage.cuda(validate_cuda_device(location))
    if kind == "meta":
        return UntypedStorage(storage.nbytes(), device="meta")
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{location}): Ember knows cpu, cuda:N and meta; redirect it with map_location"
    )


def validate_cuda_device(location: Any) -> int:
    """The index that a tag like "cuda:1" names; RuntimeError if there is no such GPU here."""
    place = Device(location)
    there = base.has_backend("cuda")
    count = base.backend_of("cuda").device_count() if there else 0
    check(
        count > 0,
        RuntimeError,
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
        "If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU.",
    )
    index = base.backend_of("cuda").current() if place.index is None else place.index
    check(
        index < count,
        RuntimeError,
        f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
        f"{count}. Please use torch.load with map_location to map your storages to an existing "
        "device.",
    )
    return index


def restorer_of(map_location: Any) -> Restorer:
    """The function (storage, tag) -> storage that a `map_location` means."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, tag: default_restore_location(storage, _mapped(map_location, tag))
    if isinstance(map_location, str | bytes | Device):
        target = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, tag: default_restore_location(storage, target)
    check(
        callable(map_location),
        TypeError,
        f"map_location is a device, a string, a dict or a function, not {map_location!r}",
    )

    def restore(storage: Any, tag: str) -> Any:
        found = map_location(storage, tag)
        return default_restore_location(storage, tag) if found is None else found

    return restore


def _mapped(table: dict[Any, Any], tag: str) -> str:
    """Where a dict of places (strings or devices, both ways) sends a tag."""
    found = table.get(tag)
    if found is None:
        places = {str(key): value for key, value in table.items()}
        found = places.get(tag, tag)
    return str(found)
