"""Tensors that are sent between processes share their memory."""

import os
import signal

import pytest

import ember as torch
import ember.multiprocessing as mp
from ember import nn


def pipe():
    return mp.get_context("fork").Pipe()


def there_and_back(values):
    ours, theirs = pipe()
    with ours, theirs:
        ours.send(values)
        return theirs.recv()


def double(connection):
    while (tensor := connection.recv()) is not None:
        tensor.mul_(2)
        connection.send("done")


def test_memory_is_shared(forked):
    ours, theirs = pipe()
    process = forked(double, theirs)
    x = torch.ones(4)
    view, array = x[1:3], x
    for wanted in (2, 4):
        ours.send(x)
        assert ours.recv() == "done"
        assert x.tolist() == array.tolist() == [wanted] * 4
        assert view.tolist() == [wanted] * 2
    ours.send(view)
    ours.recv()
    assert x.tolist() == [4, 8, 8, 4]
    assert x.is_shared()
    ours.send(None)
    process.join()
    ours.close()
    theirs.close()


def test_shared_before_a_fork(forked):
    x = torch.zeros(2, 2).share_memory_()
    module = nn.Linear(1, 1, bias=False).share_memory()
    assert x.is_shared()
    assert module.weight.is_shared()
    process = forked(lambda: (x.add_(1), module.weight.data.fill_(7)))
    process.join()
    assert x.tolist() == [[1, 1], [1, 1]]
    assert module.weight.item() == 7


def test_what_arrives():
    x = torch.arange(6.0)
    view, same = there_and_back([x[2:4], x])
    assert (view.tolist(), view.storage_offset()) == ([2, 3], 2)
    assert view.data_ptr() == same.data_ptr() + 8
    assert same.data_ptr() == x.data_ptr()  # it came from this process
    parameter = nn.Parameter(torch.ones(2))
    parameter.note = "kept"
    got = there_and_back(parameter)
    assert type(got) is nn.Parameter
    assert got.requires_grad
    assert got.data_ptr() == parameter.data_ptr()
    bare = there_and_back(torch.ones(3, requires_grad=True))
    assert bare.requires_grad
    assert bare.is_leaf
    assert there_and_back(torch.ones(2, 3).t()).stride() == (1, 3)
    assert there_and_back(torch.empty(0, 3)).shape == (0, 3)
    assert there_and_back(torch.empty(2, device="meta")).device.type == "meta"
    assert there_and_back(torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    storage = x.untyped_storage()
    assert there_and_back(storage).data_ptr() == storage.data_ptr()
    assert there_and_back(torch.eye(2).to_sparse()).to_dense().tolist() == [[1, 0], [0, 1]]
    state = there_and_back(nn.Linear(2, 1)).state_dict()
    assert list(state) == ["weight", "bias"]


def test_recorded_tensors_stay():
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        there_and_back(torch.ones(1, requires_grad=True) * 2)


def test_copies_and_files_are_as_before(tmp_path):
    x = torch.ones(2).share_memory_()
    torch.save(x, tmp_path / "x.pt")
    assert not torch.load(tmp_path / "x.pt").is_shared()
    assert not x.clone().is_shared()


def test_sharing_again_changes_nothing():
    x = torch.ones(3)
    assert not x.is_shared()
    assert x.share_memory_() is x
    address = x.data_ptr()
    x.share_memory_()
    there_and_back(x)
    assert x.data_ptr() == address


def open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts files in Linux's /proc")
def test_nothing_is_left_open():
    there_and_back(torch.ones(10))  # starts the thread that hands descriptors out
    before = open_files(), set(os.listdir("/dev/shm"))
    for _ in range(20):
        there_and_back(torch.ones(1000))
        torch.ones(5).share_memory_()
    assert open_files() <= before[0] + 1
    assert set(os.listdir("/dev/shm")) <= before[1]


def hold_and_die(connection):
    held = connection.recv()
    mine = torch.ones(1000).share_memory_()
    connection.send(held.sum().item() + mine.sum().item())
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not os.path.exists("/dev/shm"), reason="looks into Linux's /dev/shm")
def test_nothing_is_left_behind_by_who_is_killed(forked):
    before = set(os.listdir("/dev/shm"))
    ours, theirs = pipe()
    process = forked(hold_and_die, theirs)
    x = torch.ones(1000)
    ours.send(x)
    assert ours.recv() == 2000
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert x.sum().item() == 1000
    assert set(os.listdir("/dev/shm")) <= before
    ours.close()
    theirs.close()


def answer(requests, answers):
    while (tensor := requests.get()) is not None:
        answers.put(tensor + 1)
    answers.get()  # the answers' memory is fetched before this process ends


def test_queues(forked):
    context = mp.get_context("fork")
    requests, answers = context.Queue(), context.Queue()
    process = forked(answer, requests, answers)
    requests.put(torch.zeros(3))
    assert answers.get().tolist() == [1, 1, 1]
    requests.put(None)
    answers.put("thanks")
    process.join()
    for queue in (requests, answers):
        queue.close()
        queue.join_thread()


def put_and_end(answers, told):
    for number in range(3):
        answers.put(torch.full((100,), float(number)))
    told.send("all is put")


def test_a_worker_stays_until_its_tensors_are_received(forked):
    ours, theirs = pipe()
    answers = mp.get_context("fork").SimpleQueue()
    process = forked(put_and_end, answers, theirs)
    assert ours.recv() == "all is put"
    assert [answers.get()[0].item() for _ in range(3)] == [0, 1, 2]
    process.join()
    assert process.exitcode == 0
    answers.close()
    ours.close()
    theirs.close()


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="no sharing strategy 'pigeon'"):
        mp.set_sharing_strategy("pigeon")


def test_it_is_pythons_multiprocessing():
    import multiprocessing

    for name in multiprocessing.__all__:
        assert hasattr(mp, name)
    assert mp.current_process().name == multiprocessing.current_process().name
    assert mp.process is multiprocessing.process
    with pytest.raises(AttributeError, match="spawn"):
        mp.spaw


def compute():
    x = torch.ones(300, 300)
    return (x @ x).sum().item() + x.exp().log().sum().item()


def test_a_fork_beside_threads_computes(forked):
    compute()  # kernels have started their threads
    ours, theirs = pipe()
    forked(lambda: theirs.send(compute()))
    assert ours.recv() == compute()
    ours.close()
    theirs.close()
