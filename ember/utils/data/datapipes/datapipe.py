"""Data pipes: datasets that are chained by calls, as in `source.map(f).batch(4)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

from ember.errors import check
from ember.utils.data.dataset import Dataset, IterableDataset, T_co

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Pipe:
    """What both kinds of pipes share: the functions that are called on them."""

    functions: dict[str, Callable[..., Any]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Let pipes have a function, called with the pipe first."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Let pipes have a function that puts a pipe of a class around them. Exception if the name
        is taken."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return str(type(self).__qualname__)


class IterDataPipe(_Pipe, IterableDataset[T_co]):
    """A pipe of samples in order: subclasses give `__iter__`. A new iterator ends the one before.

    >>> from ember.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).map(lambda x: x + 1).batch(2))
    [[1, 2], [3, 4], [5]]
    """

    functions: dict[str, Callable[..., Any]] = {}
    _iteration = 0

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        begin = cls.__dict__.get("__iter__")
        if begin is not None:
            cls.__iter__ = _one_at_a_time(begin)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterDataPipe should implement __iter__.")

    def reset(self) -> None:
        """Called when an iteration begins; subclasses start anew."""


def _one_at_a_time(begin: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An `__iter__` whose iterators end when another is made."""

    @wraps(begin)
    def iterate(self: Any) -> Iterator[Any]:
        self._iteration += 1
        self.reset()
        return _while_newest(self, iter(begin(self)), self._iteration)

    return iterate


def _while_newest(pipe: Any, samples: Iterator[Any], number: int) -> Iterator[Any]:
    for sample in samples:
        yield sample
        check(
            pipe._iteration == number,
            RuntimeError,
            lambda: (
                "This iterator has been invalidated because another iterator has been created "
                f"from the same IterDataPipe: {pipe!r}\nThis may be caused by multiple references "
                "to the same IterDataPipe. We recommend using `.fork()` if that is necessary."
            ),
        )


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames. NotImplementedError: there are none."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("pipes of data frames are not there: iterate over their rows")


class MapDataPipe(_Pipe, Dataset[T_co]):
    """A pipe of samples by index: subclasses give `__getitem__`, and `__len__` if they can.

    >>> from ember.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2, 3]).map(lambda x: -x)[2]
    -3
    """

    functions: dict[str, Callable[..., Any]] = {}


class DataChunk(list[Any]):
    """A batch as a list, which knows its samples."""

    def __init__(self, items: Any):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples as text."""
        return f"{indent}[{', '.join(str(item) for item in self)}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The samples one by one."""
        yield from self.items


class functional_datapipe:
    """Decorates a class of pipes: all pipes of its kind get a function of that name.

    TypeError for a class that is none.

    >>> from ember.utils.data import IterDataPipe, functional_datapipe
    >>> from ember.utils.data.datapipes.iter import IterableWrapper
    >>> @functional_datapipe("twice_as_much")
    ... class Twice(IterDataPipe):
    ...     def __init__(self, source): self.source = source
    ...     def __iter__(self): return (2 * x for x in self.source)
    >>> list(IterableWrapper([1, 2]).twice_as_much())
    [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        kind = next((k for k in (IterDataPipe, MapDataPipe) if issubclass(cls, k)), None)
        check(
            kind is not None,
            TypeError,
            "functional_datapipe can only decorate IterDataPipe or MapDataPipe",
        )
        assert kind is not None
        kind.register_datapipe_as_function(self.name, cls)
        return cls
