"""Data pipes; orders of shuffled ones recorded from PyTorch."""

import pytest

import ember as torch
from ember.utils.data import (
    DataChunk,
    DataLoader,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
from ember.utils.data.datapipes import map as by_index
from ember.utils.data.datapipes.iter import IterableWrapper


def ten():
    return IterableWrapper(range(10))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda p: p, list(range(10))),
        (lambda p: p.map(lambda x: x * 2), list(range(0, 20, 2))),
        (lambda p: p.filter(lambda x: x % 2 == 0), [0, 2, 4, 6, 8]),
        (lambda p: p.batch(4), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        (lambda p: p.batch(4, drop_last=True), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (lambda p: p.batch(3).batch(2).unbatch(2), list(range(10))),
        (lambda p: p.batch(3).batch(2).unbatch(-1), list(range(10))),
        (lambda p: p.zip(IterableWrapper("ab")), [(0, "a"), (1, "b")]),
        (lambda p: p.concat(IterableWrapper("ab")), [*range(10), "a", "b"]),
        (lambda p: p.mux(IterableWrapper("ab")), [0, "a", 1, "b"]),
        (lambda p: p.groupby(lambda x: x % 3), [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]),
        (lambda p: p.sharding_filter(), list(range(10))),
    ],
)
def test_chains(function, expected):
    assert list(function(ten())) == expected


def test_lengths():
    assert (len(ten()), len(ten().batch(3)), len(ten().map(str).shuffle())) == (10, 4, 10)
    assert len(ten().concat(ten())) == 20 and len(ten().mux(IterableWrapper("ab"))) == 4
    for pipe in (ten().filter(bool), IterableWrapper(iter([1]))):
        with pytest.raises(TypeError, match="len"):
            len(pipe)


def test_shuffled_as_pytorch_does():
    torch.manual_seed(0)
    pipe = ten().shuffle()
    assert list(pipe) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8]
    assert list(pipe) == [3, 4, 9, 2, 6, 5, 8, 0, 7, 1]
    torch.manual_seed(0)
    assert list(ten().shuffle(buffer_size=3)) == [0, 1, 3, 5, 2, 4, 6, 8, 9, 7]
    assert list(ten().shuffle().set_shuffle(False)) == list(range(10))
    torch.manual_seed(0)
    assert list(by_index.SequenceWrapper("abcd").shuffle()) == ["c", "a", "d", "b"]
    assert list(ten().shuffle().set_seed(1)) == list(ten().shuffle().set_seed(1))


def test_divided():
    assert [list(branch) for branch in ten().fork(2)] == [list(range(10))] * 2
    odd = ten().demux(2, lambda x: x % 2)
    assert [list(branch) for branch in odd] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert [list(branch) for branch in odd] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    first, _ = ten().fork(2, buffer_size=2)
    with pytest.raises(BufferError, match="buffer size"):
        list(first)
    with pytest.raises(ValueError, match="should be between 0 and 1"):
        list(ten().demux(2, lambda x: x)[0])


def test_shards():
    pipe = ten().sharding_filter()
    pipe.apply_sharding(3, 1)
    assert list(pipe) == [1, 4, 7] and len(pipe) == 3
    with pytest.raises(ValueError, match="should be smaller"):
        pipe.apply_sharding(2, 2)


def test_with_a_loader():
    loader = DataLoader(ten().map(lambda x: x + 1), batch_size=4)
    assert [batch.tolist() for batch in loader] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert [b.tolist() for b in ten().batch(5).collate()] == [list(range(5)), list(range(5, 10))]


def test_a_new_iterator_ends_the_one_before():
    pipe = ten()
    first = iter(pipe)
    assert next(first) == 0 and next(iter(pipe)) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(first)


def test_pipes_by_index():
    pipe = by_index.SequenceWrapper(list("abcd"))
    assert pipe[1] == "b" and len(pipe) == 4 and list(pipe.map(str.upper)) == list("ABCD")
    assert list(pipe.batch(3)) == [["a", "b", "c"], ["d"]] and len(pipe.batch(3)) == 2
    assert pipe.concat(pipe)[5] == "b" and pipe.zip(pipe)[2] == ("c", "c")
    assert by_index.SequenceWrapper({"a": 1})["a"] == 1
    with pytest.raises(IndexError, match="out of range"):
        pipe.concat(pipe)[8]


def test_functions_of_ones_own():
    @functional_datapipe("times_for_this_test")
    class Times(IterDataPipe[int]):
        def __init__(self, source, factor):
            self.source, self.factor = source, factor

        def __iter__(self):
            return (self.factor * sample for sample in self.source)

    assert list(ten().times_for_this_test(3))[-1] == 27
    with pytest.raises(Exception, match="as it is already taken"):
        functional_datapipe("times_for_this_test")(Times)
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("x")(int)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ten().nothing()
    assert str(ten().map(len)) == "MapperIterDataPipe"


def test_what_subclasses_lack():
    class Empty(IterDataPipe):
        pass

    class NoItems(MapDataPipe):
        pass

    with pytest.raises(NotImplementedError, match="should implement __iter__"):
        iter(Empty())
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        NoItems()[0]
    with pytest.raises(NotImplementedError, match="data frames"):
        iter(DFIterDataPipe())


def test_marks():
    @non_deterministic
    class Clock(IterDataPipe):
        def __iter__(self):
            return iter(())

    @non_deterministic(lambda kind: kind == "random")
    class Some(IterDataPipe):
        def __init__(self, kind):
            self.kind = kind

    assert list(Clock()) == [] and Some("random").kind == "random"
    with guaranteed_datapipes_determinism():
        assert Some("fixed").kind == "fixed"
        for make in (Clock, lambda: Some("random")):
            with pytest.raises(TypeError, match="is non-deterministic"):
                make()
    assert list(Clock()) == []
    with runtime_validation_disabled():
        assert argument_validation(runtime_validation(abs))(-1) == 1


def test_chunks():
    chunk = DataChunk([1, 2])
    assert chunk == [1, 2] and chunk.as_str() == "[1, 2]" and list(chunk.raw_iterator()) == [1, 2]
    assert type(next(iter(ten().batch(2)))) is DataChunk
