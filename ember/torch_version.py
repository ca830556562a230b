"""A version string that compares by the numbers in it, with tuples too: `torch.__version__`."""

from __future__ import annotations

import re
from typing import Any

# PEP 440: epoch, release, pre-release, post-release, development release, local label. It is
# compiled
# at the first comparison, which most programs never make.
PATTERN = (
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)[-_.]?(?:(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\d*))?"
    r"(?:(?:[-_.]?(?:post|rev|r)[-_.]?(\d*))|-(\d+))?(?:[-_.]?(dev)[-_.]?(\d*))?"
    r"(?:\+([a-z0-9._-]+))?"
)
STAGES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
BEFORE_ALL, FINAL = ("",), ("~",)  # a development release sorts before "a", a final one after "rc"


def version_key(version: Any) -> tuple[Any, ...] | None:
    """What orders `version` (a string, or a tuple of its parts) by PEP 440; None if it is none."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    found = re.fullmatch(PATTERN, str(version).strip(), re.IGNORECASE)
    if not found:
        return None
    epoch, release, stage, stage_number, post, post_dash, dev, dev_number, local = found.groups()
    numbers = [int(part) for part in release.split(".")]
    while len(numbers) > 1 and not numbers[-1]:  # 2.0 equals 2
        numbers.pop()
    post_number = post if post is not None else post_dash
    if stage:
        stage = stage.lower()
        pre: tuple[Any, ...] = (STAGES.get(stage, stage), int(stage_number or 0))
    else:
        pre = BEFORE_ALL if dev and post_number is None else FINAL
    after = -1 if post_number is None else int(post_number or 0)
    development = (0, int(dev_number or 0)) if dev else (1, 0)
    labels = re.split(r"[._-]", local.lower()) if local else []
    # Numbers in a local label sort after words, by value; no label sorts before any.
    label = tuple((1, int(word), "") if word.isdigit() else (0, 0, word) for word in labels)
    return int(epoch or 0), numbers, pre, after, development, label


class TorchVersion(str):
    """A version: a string that is ordered against strings, tuples and lists by its numbers.

    >>> from ember.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    def _ordered(self, other: Any) -> tuple[Any, Any]:
        mine, theirs = version_key(str(self)), version_key(other)
        if mine is None or theirs is None:  # not a version: compare the texts
            return str(self), str(other)
        return mine, theirs

    def __eq__(self, other: object) -> bool:
        mine, theirs = self._ordered(other)
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        mine, theirs = self._ordered(other)
        return bool(mine < theirs)

    def __le__(self, other: Any) -> bool:
        mine, theirs = self._ordered(other)
        return bool(mine <= theirs)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    __hash__ = str.__hash__
