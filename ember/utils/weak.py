"""Dicts whose keys, or whose tensors, are kept only while others keep them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that is equal to another by the identity of what they refer to."""

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Any = None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdRef):
            return False
        a, b = self(), other()
        return self is other if a is None or b is None else a is b

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict by the identity of its keys, which leave it when they are gone.

    >>> import ember as torch
    >>> from ember.utils.weak import WeakIdKeyDictionary
    >>> a, notes = torch.ones(2), WeakIdKeyDictionary()
    >>> notes[a] = "mine"
    >>> notes[a], torch.ones(2) in notes
    ('mine', False)
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef):
        self.data: dict[Any, Any] = {}
        self.ref_type = ref_type
        owner = weakref.ref(self)

        def remove(reference: Any) -> None:
            found = owner()
            if found is not None:
                found.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what cannot be referred to weakly is no key
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        mine, theirs = ({id(k): v for k, v in d.items()} for d in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def keyrefs(self) -> list[Any]:
        """The references to the keys; some may have nothing left."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A dict of the same keys and values."""
        return WeakIdKeyDictionary(self, self.ref_type)

    def __copy__(self) -> WeakIdKeyDictionary:
        return self.copy()


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any):
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
