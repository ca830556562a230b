"""Page-locked memory of real GPUs, on an emulated driver: kept blocks, copies, and what waits."""

import numpy as np
import pytest

from ember.backends.cuda.pinned import PinnedMemory, block_of, size_of
from tests.backends.cuda_emulator import COMPILER
from tests.backends.emulated import run


class Pages:
    """Memory and events as the pool asks for them."""

    def __init__(self):
        self.blocks, self.given, self.late = {}, [], set()
        self.pool = PinnedMemory(self.take, self.give, lambda event: event not in self.late)

    def take(self, nbytes):
        block = np.zeros(nbytes, np.uint8)
        self.blocks[block.ctypes.data] = block
        return block.ctypes.data

    def give(self, address):
        self.given.append(address)
        del self.blocks[address]


def test_sizes_of_blocks():
    assert [size_of(n) for n in (0, 1, 512, 513, 3000)] == [512, 512, 512, 1024, 4096]
    assert size_of(1 << 20) == 1 << 20
    assert size_of((1 << 20) + 1) == (1 << 20) + (1 << 17)
    assert size_of(5 << 20) == 5 << 20 and size_of((5 << 20) + 1) == 11 << 19


def test_blocks_are_kept_for_the_next_of_their_size():
    pages = Pages()
    first = pages.pool.allocate(1000)
    first[:] = 7
    address = first.ctypes.data
    view = first[10:20].view(np.int16)
    assert block_of(view).address == address and block_of(np.zeros(3)) is None
    del first
    assert pages.pool.allocate(1000).ctypes.data != address, "a view still uses it"
    del view
    again = pages.pool.allocate(700)
    assert again.nbytes == 700 and again.ctypes.data in pages.blocks and len(pages.blocks) == 2
    assert pages.pool.reserved == 2048 and pages.pool.allocated == 1024
    assert pages.pool.peak_allocated == 2048 and pages.pool.allocations == 3


def test_a_block_waits_for_its_copies():
    pages = Pages()
    pages.late = {"copy"}
    block = pages.pool.allocate(100)
    address = block.ctypes.data
    block_of(block).used("copy")
    del block
    other = pages.pool.allocate(100)
    assert other.ctypes.data != address
    del other
    pages.pool.release_cached()
    assert address not in pages.given and len(pages.given) == 1
    assert pages.pool.waiting_bytes == 512 and pages.pool.stats()["active_requests.current"] == 0
    pages.late.clear()
    assert pages.pool.allocate(100).ctypes.data == address
    pages.pool.release_cached()
    assert pages.pool.reserved == 0 and not pages.blocks
    found = pages.pool.stats()
    assert found["num_host_alloc"] == found["num_host_free"] == 2
    assert found["allocations.current"] == found["active_bytes.current"] == 0
    assert (found["active_bytes.peak"], found["allocated_bytes.peak"]) == (512, 1024)
    pages.pool.reset_counts()
    pages.pool.reset_peaks()
    assert not any(pages.pool.stats().values())


CODE = """
from ember.backends.cuda.pinned import block_of
def block(t):
    return block_of(t._array.storage.buffer)

host = torch.arange(6.0).reshape(2, 3)
assert not host.is_pinned() and block(host) is None
pinned = host.pin_memory()
assert pinned.is_pinned() and block(pinned) is not None and pinned.tolist() == host.tolist()
assert pinned.pin_memory() is pinned
turned = torch.arange(6.0).reshape(2, 3).t().pin_memory()
assert turned.tolist() == [[0, 3], [1, 4], [2, 5]] and block(turned) is not None
for made in (torch.empty(3, pin_memory=True), torch.zeros(3, pin_memory=True),
             torch.tensor([1, 2, 3], pin_memory=True), torch.ones(0).pin_memory()):
    assert made.is_pinned() and block(made) is not None
assert torch.tensor([1, 2, 3], pin_memory=True).tolist() == [1, 2, 3]

device = pinned.to("cuda", non_blocking=True)
assert device.cpu().tolist() == host.tolist()
assert len(block(pinned).events) == 1
back = (device * 2).to("cpu", non_blocking=True)
torch.cuda.synchronize()
assert back.is_pinned() and block(back) is not None and back.tolist() == (host * 2).tolist()
target = torch.empty(2, 3, pin_memory=True)
place = target.data_ptr()
target.copy_(device, non_blocking=True)
torch.cuda.synchronize()
assert target.tolist() == host.tolist() and target.data_ptr() == place
plain = torch.empty(2, 3)
plain.copy_(device)
assert plain.tolist() == host.tolist()
device.copy_(pinned * 3)
assert device.cpu().tolist() == (host * 3).tolist()
device.copy_(pinned, non_blocking=True)
assert device.cpu().tolist() == host.tolist()
target[0].copy_(device[1])
assert target.tolist() == [[3, 4, 5], [3, 4, 5]]
device[:, 1:].copy_(target[:, :2], non_blocking=True)
assert device.cpu().tolist() == [[0, 3, 4], [3, 3, 4]]
target.copy_(device.double())
assert target.tolist() == [[0, 3, 4], [3, 3, 4]]
half = torch.tensor([1.5, 2.5], dtype=torch.bfloat16).pin_memory()
assert half.cuda(non_blocking=True).cpu().tolist() == [1.5, 2.5]

from torch_loader import DataLoader
batches = list(DataLoader(torch.arange(10.0), batch_size=4, pin_memory=True))
assert all(b.is_pinned() and block(b) is not None for b in batches)
assert [b.cuda(non_blocking=True).cpu().tolist() for b in batches] == [
    [0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
for i in range(20):
    torch.full((1000,), float(i)).pin_memory().cuda(non_blocking=True)
assert len(driver.locked) < 20, len(driver.locked)
before = torch.cuda.host_memory_stats()
assert before["active_requests.current"] >= 4 and before["allocated_bytes.current"] > 0
torch.cuda.reset_accumulated_host_memory_stats()
assert torch.cuda.host_memory_stats()["active_requests.freed"] == 0
torch.cuda.reset_peak_host_memory_stats()
found = torch.cuda.host_memory_stats_as_nested_dict()["active_bytes"]
assert found["peak"] == found["current"] > 0

# ordinary memory: little goes by page-locked memory, and nobody waits
waits, sent = [], []
driver.synchronize = lambda index, stream=None: waits.append(index)
send = driver.send
driver.send = lambda *a: sent.append(a[3]) or send(*a)
plain = torch.arange(1000.0)
assert torch.equal(plain.cuda() + 0, plain.cuda())
assert sent == [4000, 4000] and not waits
large = torch.arange(300_000.0)
moved = large.cuda()
assert sent == [4000, 4000] and torch.equal(moved.cpu(), large)
driver.pending.add("late")
driver.mark = lambda index, timed=True, stream=None: "late"
from ember.backends.base import backend_of
pool = backend_of("cuda").pinned
kept = [torch.full((250_000,), float(i)).cuda() for i in range(80)]
assert 64 << 20 <= pool.waiting_bytes <= 66 << 20 and len(sent) < 75, pool.waiting_bytes
assert [t[-1].item() for t in kept] == list(range(80))
print("done")
""".replace("torch_loader", "ember.utils.data")


@pytest.mark.skipif(COMPILER is None, reason="there is no g++")
def test_copies_to_and_from_page_locked_memory(tmp_path):
    assert "done" in run(tmp_path, CODE)
