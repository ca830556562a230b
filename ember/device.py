"""`torch.device`: the name of a place where tensors live, and the thread's default device."""

from __future__ import annotations

from _thread import _local  # threading.local, without the import of threading
from typing import Any, ClassVar

from ember.errors import check

KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)
TYPES = KNOWN.split(", ")  # nameable; of those only cpu, cuda and meta can hold tensors


class _DefaultDevice(_local):
    """What factories use when no device is given: a stack of `with device` blocks over a global
    choice."""

    stack: tuple[device, ...] = ()


_blocks = _DefaultDevice()
automatic: list[Any] = [None]  # what finds the device that "auto" stands for


class device:
    """A device: a type and, for one of several, an index. Equal ones are the same object.

    `device("cuda")` has no index: it means the current GPU when it is used. `device("auto")` is the
    CPU or a GPU, by what torch.devices.autoplace measures. As a context manager a device is the
    default of the factories inside the block. RuntimeError for a name that no device has.
    The devices of other vendors ("mps", "xpu") have a name, so that programs may ask for them, and
    an error where a tensor is to lie on one.

    >>> import ember as torch
    >>> torch.device("cuda:1")
    device(type='cuda', index=1)
    """

    __slots__ = ("__weakref__", "index", "type")
    _known: ClassVar[dict[tuple[str, int | None], device]] = {}
    type: str
    index: int | None

    def __new__(
        cls, device: Any = None, index: int | None = None, *, type: str | None = None
    ) -> device:
        spec = device if device is not None else type
        if isinstance(spec, cls):
            check(
                index is None, RuntimeError, "device(): an index does not go with a device object"
            )
            return spec
        if isinstance(spec, int) and not isinstance(spec, bool):
            check(spec >= 0, RuntimeError, "Device index must not be negative")
            return cls._interned("cuda", spec)
        if not isinstance(spec, str):
            raise TypeError(
                "device() received an invalid combination of arguments - got "
                f"({_type_name(spec)}), but expected one of: (torch.device device), (str type, "
                "int index = -1), such as device('cuda:0') or device('cuda', 0)"
            )
        if spec == "auto" and index is None and automatic[0] is not None:
            return cls(automatic[0]())  # measured by ember.devices
        kind, parsed = _parse(spec)
        if index is not None:
            check(
                parsed is None,
                RuntimeError,
                "type (string) must not include an index because index was passed explicitly: "
                f"{spec}",
            )
            check(index >= 0, RuntimeError, "Device index must not be negative")
            parsed = int(index)
        return cls._interned(kind, parsed)

    @classmethod
    def _interned(cls, kind: str, index: int | None) -> device:
        found = cls._known.get((kind, index))
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "type", kind)
            object.__setattr__(found, "index", index)
            found = cls._known.setdefault((kind, index), found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (
            f", index={self.index})" if self.index is not None else ")"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> Any:
        return device, (str(self),)

    def __deepcopy__(self, memo: Any) -> device:
        return self

    def __enter__(self) -> device:
        _blocks.stack = (*_blocks.stack, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _blocks.stack = _blocks.stack[:-1]

    def __call__(self, function: Any) -> Any:
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        inside.__name__, inside.__doc__ = getattr(function, "__name__", "inside"), function.__doc__
        return inside


def _type_name(value: Any) -> str:
    return str(value.__class__.__name__)


def _parse(text: str) -> tuple[str, int | None]:
    check(text, RuntimeError, "Device string must not be empty")
    kind, colon, number = text.partition(":")
    check(
        kind in TYPES,
        RuntimeError,
        f"Expected one of {KNOWN} device type at start of device string: {kind}",
    )
    if not colon:
        return kind, None
    valid = number.isascii() and number.isdigit() and (number == "0" or number[0] != "0")
    check(valid, RuntimeError, f"Invalid device string: '{text}'")
    check(
        len(number) < 10,
        RuntimeError,
        f"Could not parse device index '{number}' in device string '{text}': there are not that "
        "many devices",
    )
    return kind, int(number)


CPU = device("cpu")
META = device("meta")
_chosen: list[device] = [CPU]


def default_device() -> device:
    """The device of factories that are not told one; "cuda" without an index means the current
    GPU."""
    stack = _blocks.stack
    return stack[-1] if stack else _chosen[0]


def set_default_device(new: Any) -> None:
    """Make `new` the default device of factories; None restores the CPU."""
    _chosen[0] = CPU if new is None else device(new)
