"""What a captured function returns is what the function returns: views are views, objects are
fresh."""

import numpy as np
import pytest

import ember as torch
from ember import nn
from ember.capture.compiled import Captured


def test_views_of_arguments_are_views():
    run = Captured(lambda x: (x.t()[1:], x.sum()))
    for turn in range(3):
        whole = torch.full((4, 3), float(turn))
        x = whole[1:]
        view, total = run(x)
        assert view.data_ptr() == x.t()[1:].data_ptr()
        assert view.stride() == x.t()[1:].stride()
        assert view._base is whole
        view += 1
        assert whole.tolist() == [[turn] * 3] + [[turn, turn + 1, turn + 1]] * 3
        assert float(total) == 9 * turn
    assert run.recordings[0].program is not None, run.report()


def test_views_that_need_gradients_stay_eager():
    run = Captured(lambda x: x.mul_(1)[0])
    for _ in range(3):
        x = torch.ones(2, 2, requires_grad=True)
        h = x * 1
        with torch.no_grad():
            run(h).add_(0)
        run(h).mul_(3)
        h.sum().backward()
        assert x.grad.tolist() == [[3, 3], [1, 1]]
    assert "it returns a view of an argument" in run.report()


def test_buffers_are_themselves_and_views_of_them_too():
    net = nn.BatchNorm1d(3)
    run = Captured(lambda x: (net(x), net.running_mean))
    part = Captured(lambda x: (net(x), net.running_mean[:1]))
    with torch.no_grad():
        for _ in range(3):
            assert run(torch.rand(4, 3))[1] is net.running_mean
            part(torch.rand(4, 3))[1].fill_(7)
            assert net.running_mean[0] == 7
    assert run.recordings[0].program is not None, run.report()
    assert "a view of a tensor that was there before" in part.report()


class Output:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("make", [Output, nn.Parameter, lambda t: {t.sum()}])
def test_objects_are_made_anew(make):
    run = Captured(lambda x: make((x * 2).detach()))
    first, second = run(torch.ones(2)), run(torch.zeros(2))
    assert first is not second
    assert "which a replay cannot make" in run.report()


def test_constants_and_arguments_may_be_among_them():
    run = Captured(lambda x, o: (x * 2, x.shape, x.dtype, x.device, o, None, "name", 3))
    thing = object()
    for turn in range(3):
        found = run(torch.full((2,), float(turn)), thing)
        assert found[0].tolist() == [2 * turn] * 2
        assert found[1:] == (torch.Size([2]), torch.float32, torch.device("cpu"), thing, None,
                             "name", 3)  # fmt: skip
        assert isinstance(found[1], torch.Size)
    assert run.recordings[0].program is not None, run.report()


def test_gradients_are_those_of_the_leaves():
    net = nn.Linear(2, 1)

    def step(x):
        net.zero_grad()
        net(x).sum().backward()
        return net.bias.grad

    run = Captured(step)
    for turn in range(1, 4):
        assert run(torch.ones(turn, 2)) is net.bias.grad
        assert net.bias.grad.tolist() == [turn]


def test_a_default_device_is_watched():
    run = Captured(lambda: torch.ones(2) * 2)
    assert run().device.type == "cpu"
    with torch.device("meta"):
        assert run().device.type == "meta"
    assert run().tolist() == [2, 2]


def test_arguments_that_are_no_numbers_are_told_apart():
    run = Captured(lambda x, size: x.reshape(size).sum(0))
    for rows in (2, 3, 6, 2, 3, 6):
        assert run(torch.ones(6), torch.Size([rows, 6 // rows])).shape == (6 // rows,)
    assert len(run.recordings) == 3
    run = Captured(lambda x, options: x * options.factor)
    for factor in range(5):  # one may get the memory, and so the id, of the one before
        assert (
            run(torch.ones(2), type("Options", (), {"factor": factor})()).tolist() == [factor] * 2
        )


def test_memory_of_numpy_arrays_is_read_each_time():
    values = np.ones(3, np.float32)
    run = Captured(lambda x: x + torch.from_numpy(values) * 2)
    own = Captured(lambda x: x + torch.from_numpy(np.ones(3, np.float32)) * 2)
    for turn in range(3):
        values[:] = turn
        assert run(torch.ones(3)).tolist() == [1 + 2 * turn] * 3
        assert own(torch.ones(3)).tolist() == [3] * 3
    assert "the memory of a NumPy array" in run.report()
    assert own.recordings[0].program is not None


def test_modules_that_wait_for_their_shapes():
    net = torch.nn.LazyLinear(2)
    run = Captured(net)
    for _ in range(3):
        x = torch.rand(4, 3)
        torch.testing.assert_close(run(x), net(x))
        run(x).sum().backward()
    assert run.recordings[0].program is not None, run.report()


def test_batches_of_nothing():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Softmax(1))
    run = Captured(net.eval())
    with torch.no_grad():
        for _ in range(3):
            assert run(torch.ones(0, 3)).shape == (0, 3)


def test_fresh_leaves_that_want_gradients():
    run = Captured(lambda: torch.zeros(2, requires_grad=True))
    for _ in range(3):
        leaf = run()
        assert leaf.is_leaf
        (leaf * 3).sum().backward()
        assert leaf.grad.tolist() == [3, 3]
    assert run.recordings[0].program is not None, run.report()
