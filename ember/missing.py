"""The error for a name that Ember does not have: it says which names come close."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ember.version import ember_version

# What programs ask for that is left out, and what to do instead.
_QUANTIZED = "quantization is left out; float16 and bfloat16 make models smaller"
INSTEAD = {
    "torch.nested": "there are no nested tensors; torch.nn.utils.rnn pads and packs sequences",
    "torch.quantize_per_tensor": _QUANTIZED,
    "torch.quantize_per_channel": _QUANTIZED,
}


class MissingAttribute(AttributeError):
    """A name that a module does not have; the names like it are looked up when the message is read.

    Libraries probe for many names (`hasattr(torch, ...)`), so making one must cost next to nothing.
    """

    def __init__(self, module: str, name: str, existing: Callable[[], Iterable[str]]):
        super().__init__(f"module '{module}' has no attribute '{name}'", name=name)
        self._module, self._existing = module, existing
        self._text = ""

    def __str__(self) -> str:
        if not self._text:
            self._text = self.args[0] + self._hint()
        return self._text

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)

    def _hint(self) -> str:
        name = str(self.name)
        if name.startswith("__"):
            return ""
        if f"{self._module}.{name}" in INSTEAD:
            return f" in Ember {ember_version}: {INSTEAD[f'{self._module}.{name}']}"
        close = closest(name, self._existing())
        where = f"{self._module}." if self._module else ""
        likely = (
            f"; the closest names: {', '.join(where + match for match in close)}" if close else ""
        )
        return f" in Ember {ember_version}{likely}"


def closest(name: str, existing: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of the public names in `existing` that are spelt most like `name`, best first.

    >>> from ember.missing import closest
    >>> closest("zeross", ["ones", "zeros", "zeros_like"])
    ['zeros', 'zeros_like']
    """
    from difflib import SequenceMatcher  # slow to import, and only needed for a message

    wanted, scores = name.lower(), []
    matcher = SequenceMatcher(b=wanted)
    for other in existing:
        if other.startswith("_") or other == name:
            continue
        matcher.set_seq1(other.lower())
        if matcher.quick_ratio() > 0.6 and (score := matcher.ratio()) > 0.6:
            scores.append((-score, other))
    return [other for _, other in sorted(scores)[:count]]


def missing_attribute(
    module: str, name: str, existing: Callable[[], Iterable[str]]
) -> MissingAttribute:
    """The AttributeError for `module` without `name`; `existing()` gives the names that it has."""
    return MissingAttribute(module, name, existing)
