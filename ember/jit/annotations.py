"""The types that TorchScript annotations use: Python's own, and lists of a fixed length."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 (names that users import)

__all__ = ["Any", "BroadcastingList1", "Dict", "List", "Optional", "Tuple", "Union"]


class BroadcastingListCls:
    """`BroadcastingList2[int]`: an int, or a list of two."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()
